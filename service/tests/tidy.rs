//! Rules of the house that the compiler doesn't hold: checked over the text of the sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::halt::Reason;

/// Longest function, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Longest file, without its tests and blank lines.
const FILE_LINES_MAX: usize = 600;

/// Modules that only compute: files, and folders with all that is in them.
const PURE: &[&str] = &[
    "gtid.rs",
    "gtid/",
    "halt.rs",
    "binlog/",
    "fold/",
    "schema/",
    "convert/",
    "sink/net.rs",
    "sink/part.rs",
    "sink/schema_change/",
    "sink/statements.rs",
    "snapshot/plan.rs",
    "snapshot/plan/",
];

/// What a pure module can't have: tasks, sockets, drivers, clocks, randomness.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "tokio",
    "mysql_async",
    "tokio_postgres",
    "native_tls",
    "Instant",
    "SystemTime",
    "rand",
    "metrics",
];

/// Words that panic on a surprise or talk past the log, with what follows them.
const FORBIDDEN: &[&str] =
    &[".unwrap()", "dbg!(", "todo!(", "unimplemented!(", "println!(", "print!(", "eprintln!(", "eprint!("];

struct Source {
    /// Relative to `src`, with forward slashes.
    path: String,
    /// As it is, with test modules emptied; lines stay where they are.
    text: String,
    /// The same with comments and literals blanked out.
    code: String,
}

impl Source {
    fn is_under(&self, place: &str) -> bool {
        if place.ends_with('/') { self.path.starts_with(place) } else { self.path == place }
    }

    fn line_of(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }
}

/// Every source file of the library and the binary that is not a test.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    for file in rust_files(&root) {
        let path = file.strip_prefix(&root).expect("below src").to_str().expect("UTF-8").replace('\\', "/");
        if path.split('/').any(|part| part == "tests" || part == "tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("readable");
        let (text, code) = without_tests(&text);
        sources.push(Source { path, text, code });
    }
    assert!(sources.len() > 20, "the sources are not where they were");
    sources
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            files.extend(rust_files(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
    files
}

/// Text and code, with nothing but the line ends of items that are compiled for tests only.
fn without_tests(text: &str) -> (String, String) {
    const MARK: &str = "#[cfg(test)]";
    let (mut text, mut code) = (text.to_owned(), blanked(text));
    while let Some(start) = code.find(MARK) {
        let item = start + MARK.len();
        let open = code[item..].find(['{', ';']).map_or(code.len(), |at| item + at);
        let end = if code[open..].starts_with('{') { closing(&code, open) } else { open };
        let end = (end + 1).min(code.len());
        let line_ends = "\n".repeat(code[start..end].matches('\n').count());
        text.replace_range(start..end, &line_ends);
        code.replace_range(start..end, &line_ends);
    }
    (text, code)
}

/// Where the brace that opens at `open` closes.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    panic!("a brace is not closed: the lexer of this test is at fault");
}

/// Blanks out comments and the insides of string and character literals, byte for byte.
fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let Some(end) = skipped(bytes, at) else {
            out.push(bytes[at]);
            at += 1;
            continue;
        };
        out.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8(out).expect("only whole characters were blanked out")
}

/// The end of the comment or literal that begins here, if one does.
fn skipped(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let until = |needle: &[u8], from: usize| {
        let found = rest[from..].windows(needle.len()).position(|window| window == needle);
        at + found.map_or(rest.len(), |found| from + found + needle.len())
    };
    match rest {
        [b'/', b'/', ..] => Some(until(b"\n", 0).saturating_sub(1).max(at + 2)),
        [b'/', b'*', ..] => Some(until(b"*/", 2)),
        [b'r', b'"' | b'#', ..] | [b'b', b'r', b'"' | b'#', ..] if !in_word => {
            raw_string(rest).map(|len| at + len)
        }
        [b'"', ..] => Some(at + quoted(rest, b'"')),
        [b'\'', b'\\', ..] => Some(at + quoted(rest, b'\'')),
        // A character, not a lifetime: closed after one character of up to four bytes.
        [b'\'', first, ..] if *first != b'\'' => {
            let width = std::str::from_utf8(&rest[1..rest.len().min(5)])
                .map_or_else(|error| error.valid_up_to(), str::len);
            let character = std::str::from_utf8(&rest[1..1 + width]).ok()?.chars().next()?.len_utf8();
            (rest.get(1 + character) == Some(&b'\'')).then_some(at + character + 2)
        }
        _ => None,
    }
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let start = rest.iter().position(|byte| *byte == b'r')? + 1;
    let hashes = rest[start..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(start + hashes) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let from = start + hashes + 1;
    let found = rest[from..].windows(close.len()).position(|window| window == close)?;
    Some(from + found + close.len())
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Where `word` stands in the code as a whole word.
fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let part_of_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        !part_of_word(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !part_of_word(bytes.get(at + word.len()))
    })
}

/// Name, line and length in lines of every function with a body.
fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let code = &source.code;
    let mut functions = Vec::new();
    for at in words(code, "fn") {
        let name: String =
            code[at + 2..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // Without a name it is a type: `fn(u8) -> u8`.
        let Some(body) = code[at..].find(['{', ';']).map(|found| at + found) else { continue };
        if name.is_empty() || code[body..].starts_with(';') {
            continue;
        }
        let lines = code[at..closing(code, body)].matches('\n').count() + 1;
        functions.push((name, source.line_of(at), lines));
    }
    functions
}

/// Fails with every violation at once.
fn refuse(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

#[test]
fn pure_modules_only_compute() {
    let mut violations = Vec::new();
    let sources = sources();
    for source in sources.iter().filter(|source| PURE.iter().any(|place| source.is_under(place))) {
        for word in IMPURE {
            violations.extend(
                words(&source.code, word).map(|at| format!("{}:{} {word}", source.path, source.line_of(at))),
            );
        }
    }
    refuse("a pure module has no tasks, drivers, clocks or randomness", &violations);
    for place in PURE.iter().filter(|place| !place.ends_with("plan/")) {
        assert!(sources.iter().any(|source| source.is_under(place)), "{place} is not there any more");
    }
}

#[test]
fn source_and_sink_do_not_know_each_other() {
    let mut violations = Vec::new();
    for source in sources() {
        for (own, other) in [("source/", "sink"), ("sink/", "source")] {
            if source.is_under(own) {
                let path = format!("crate::{other}");
                violations.extend(
                    words(&source.code, &path)
                        .map(|at| format!("{}:{} {path}", source.path, source.line_of(at))),
                );
            }
        }
    }
    refuse("only pipeline and snapshot see both sides", &violations);
}

/// Taking over commits as well: the epoch, and no data.
#[test]
fn replicated_data_is_committed_in_one_place() {
    let (mut statements, mut transactions) = (Vec::new(), Vec::new());
    for source in sources().iter().filter(|source| !source.is_under("fold/")) {
        let of = |needle: &str| source.text.matches(needle).map(|_| source.path.clone()).collect::<Vec<_>>();
        statements.extend(of("\"COMMIT"));
        transactions.extend(of(".commit()"));
    }
    assert_eq!(statements, ["sink/checkpoint.rs"], "COMMIT is said in checkpoint::commit only");
    assert_eq!(transactions, ["sink/writer.rs"], "a driver's commit is called by the take-over only");
}

#[test]
fn nothing_panics_on_a_surprise_or_talks_past_the_log() {
    let mut violations = Vec::new();
    for source in sources() {
        for word in FORBIDDEN {
            let found = source.code.match_indices(word).filter(|(at, _)| {
                let before = source.code[..*at].chars().next_back();
                word.starts_with('.') || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            });
            violations.extend(found.map(|(at, _)| format!("{}:{} {word}", source.path, source.line_of(at))));
        }
    }
    refuse("not outside tests", &violations);
}

#[test]
fn functions_and_files_are_short() {
    let mut violations = Vec::new();
    for source in sources() {
        let lines = source.text.lines().filter(|line| !line.trim().is_empty()).count();
        if lines > FILE_LINES_MAX {
            violations.push(format!("{} has {lines} lines without blank ones and tests", source.path));
        }
        for (name, line, lines) in
            functions(&source).into_iter().filter(|(.., lines)| *lines > FUNCTION_LINES_MAX)
        {
            violations.push(format!("{}:{line} {name} has {lines} lines", source.path));
        }
    }
    refuse(
        &format!("functions have up to {FUNCTION_LINES_MAX} lines, files up to {FILE_LINES_MAX}"),
        &violations,
    );
}

#[test]
fn every_halt_reason_is_in_the_runbook() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/runbook.md");
    let runbook = fs::read_to_string(path).expect("ops/runbook.md");
    let headings: BTreeSet<&str> = runbook.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for reason in Reason::ALL {
        assert!(headings.contains(reason.name()), "ops/runbook.md has no heading {}", reason.name());
    }
    let names: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    let of_a_reason = |heading: &&&str| heading.contains('_') && !heading.contains(' ');
    for heading in headings.iter().filter(of_a_reason) {
        assert!(names.contains(heading), "ops/runbook.md has a heading {heading} that is no reason");
    }
}

/// What the section under a reason's heading says to do. "As X" takes it over from there.
fn advice(runbook: &str, reason: &str) -> String {
    let heading = format!("\n### {reason}\n");
    let section = runbook.split(&heading).nth(1).unwrap_or_default();
    let section = section.split("\n#").next().unwrap_or_default();
    let items = section.split("\n- **").filter(|item| {
        let label = item.split(":**").next().unwrap_or_default().to_ascii_lowercase();
        label.split(", ").any(|word| word == "do")
    });
    let text = items.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    match text.split("as `").nth(1).and_then(|rest| rest.split('`').next()) {
        Some(other) if text.contains(":** as `") => advice(runbook, other),
        _ => text.to_ascii_lowercase(),
    }
}

#[test]
fn remedies_name_the_procedures_that_the_runbook_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/runbook.md");
    let runbook = fs::read_to_string(path).expect("ops/runbook.md");
    let mut violations = Vec::new();
    for reason in Reason::ALL {
        let (remedy, advice) = (reason.remedy().to_ascii_lowercase(), advice(&runbook, reason.name()));
        assert!(!advice.is_empty(), "{reason}: the runbook does not say what to do");
        for procedure in ["start over", "copy the table again"] {
            if remedy.contains(procedure) != advice.contains(procedure) {
                violations.push(format!("{reason}: {procedure}"));
            }
        }
        // What these two are called is fixed, so that they can be looked up.
        for other in ["copy the tables again", "copy it again", "copy them again"] {
            if remedy.contains(other) || advice.contains(other) {
                violations.push(format!("{reason}: {other}"));
            }
        }
    }
    refuse("a halt's remedy and its section in the runbook name the same procedures", &violations);
}

#[test]
fn every_halt_reason_can_be_provoked() {
    let sources = sources();
    let code: String =
        sources.iter().filter(|source| source.path != "halt.rs").map(|source| source.code.as_str()).collect();
    let catalogue = sources.iter().find(|source| source.path == "halt.rs").expect("halt.rs");
    for reason in Reason::ALL {
        let variant = format!("{reason:?}");
        assert!(catalogue.code.contains(&variant));
        assert!(
            words(&code, &format!("Reason::{variant}")).next().is_some(),
            "nothing halts with {}",
            reason.name()
        );
    }
}

#[test]
fn metrics_are_declared_and_recorded_in_one_place() {
    const PLACE: &str = "telemetry/metrics.rs";
    let sources = sources();
    let mut violations = String::new();
    for source in sources.iter().filter(|source| source.path != PLACE) {
        for (at, _) in source.text.match_indices("\"tidegate_") {
            writeln!(violations, "{}: {}", source.path, &source.text[at..].lines().next().unwrap_or(""))
                .expect("memory");
        }
    }
    assert!(violations.is_empty(), "names of metrics are written in {PLACE} only:\n{violations}");
    let metrics = sources.iter().find(|source| source.path == PLACE).expect("the metrics");
    let others: String =
        sources.iter().filter(|source| source.path != PLACE).map(|source| source.code.as_str()).collect();
    for (name, ..) in functions(metrics) {
        let public = metrics.code.contains(&format!("pub fn {name}("))
            || metrics.code.contains(&format!("pub(crate) fn {name}("));
        assert!(
            !public || words(&others, &name).next().is_some(),
            "{name} is called by nothing, so its metrics stay at 0"
        );
    }
}

#[cfg(test)]
mod of_the_lexer {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_out() {
        let text = r##"a /* " */ b // 'x' "
            c "d \" // e" f 'g' '\'' '"' 'é' h<'i>(r"j\" , r#"k " l"#, b'm', br"n") 'o: loop {}"##;
        let code = blanked(text);
        assert_eq!(code.len(), text.len());
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c", "f", "h<'i>(", ",", ",", "b", ",", ")", "'o:", "loop", "{}"]);
    }

    #[test]
    fn tests_are_left_out_and_functions_measured() {
        let text = "fn a() {\n  b();\n}\n#[cfg(test)]\nmod tests {\n  fn c() { \"}\"; }\n}\ntrait T { fn d(); }\n#[cfg(test)]\nmod e;\nfn f() {}\n";
        let (text, code) = without_tests(text);
        let source = Source { path: "x.rs".into(), text, code };
        let expected = [("a".to_owned(), 1, 3), ("f".to_owned(), 11, 1)];
        assert_eq!(functions(&source), expected);
    }
}
