//! Which source tables are replicated: `tables.include` and `tables.exclude`.
//!
//! A pattern is `database.table`. `*` stands for any run of characters, also none. A part in
//! backquotes is taken literally, so that names with dots, blanks or asterisks can be written; a
//! backquote in it is doubled, as in MySQL. Names are compared as they are, like a server with
//! `lower_case_table_names=0` does. The system schemas never match.

use std::fmt;

/// The configured choice of tables: matched by an include pattern and by no exclude pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

/// A pattern that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table pattern \"{pattern}\" {problem}")]
pub struct FilterError {
    pub pattern: String,
    problem: Problem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    NotTwoParts,
    EmptyPart,
    UnclosedQuote,
    StrayBackquote,
    Blank,
    SystemSchema,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTwoParts => "is not of the form database.table (put a name with a dot in backquotes)",
            Self::EmptyPart => "has an empty database or table part",
            Self::UnclosedQuote => "has a backquote that is not closed",
            Self::StrayBackquote => {
                "has a backquote within a name (quote the whole part and double the backquote)"
            }
            Self::Blank => "has a blank outside backquotes",
            Self::SystemSchema => "names a system schema, which is never replicated",
        })
    }
}

impl Filter {
    /// # Errors
    /// On the first pattern that is malformed, or that includes a system schema by name.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, FilterError> {
        let filter = Self { include: parse_all(include)?, exclude: parse_all(exclude)? };
        for (pattern, text) in filter.include.iter().zip(include) {
            if pattern.database.literal().is_some_and(is_system_schema) {
                return Err(FilterError { pattern: text.clone(), problem: Problem::SystemSchema });
            }
        }
        Ok(filter)
    }

    /// Whether the table is replicated.
    #[must_use]
    pub fn matches(&self, database: &str, table: &str) -> bool {
        let matched = |pattern: &Pattern| pattern.database.matches(database) && pattern.table.matches(table);
        !is_system_schema(database) && self.include.iter().any(matched) && !self.exclude.iter().any(matched)
    }

    /// Whether a table of this database could be replicated: false only if none can, whatever its name.
    #[must_use]
    pub fn may_match_in(&self, database: &str) -> bool {
        let whole =
            |pattern: &Pattern| pattern.database.matches(database) && pattern.table.matches_everything();
        !is_system_schema(database)
            && self.include.iter().any(|pattern| pattern.database.matches(database))
            && !self.exclude.iter().any(whole)
    }
}

/// MySQL's own schemas. The two virtual ones are found by any spelling, the others are directories.
fn is_system_schema(name: &str) -> bool {
    matches!(name, "mysql" | "sys")
        || name.eq_ignore_ascii_case("information_schema")
        || name.eq_ignore_ascii_case("performance_schema")
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    database: Part,
    table: Part,
}

/// One name of a pattern: the literal runs between its asterisks, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    runs: Vec<String>,
}

impl Part {
    fn literal(&self) -> Option<&str> {
        match self.runs.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    fn matches_everything(&self) -> bool {
        self.runs.len() > 1 && self.runs.iter().all(String::is_empty)
    }

    /// The first run is a prefix, the last a suffix, and those between are found from left to
    /// right: taking each at its first occurrence leaves the most room for the rest.
    fn matches(&self, name: &str) -> bool {
        let Some((first, others)) = self.runs.split_first() else { return false };
        let Some((last, middle)) = others.split_last() else { return name == first };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
        for run in middle {
            let Some((_, after)) = rest.split_once(run.as_str()) else { return false };
            rest = after;
        }
        rest.ends_with(last.as_str())
    }
}

fn parse_all(patterns: &[String]) -> Result<Vec<Pattern>, FilterError> {
    patterns
        .iter()
        .map(|text| parse(text).map_err(|problem| FilterError { pattern: text.clone(), problem }))
        .collect()
}

fn parse(text: &str) -> Result<Pattern, Problem> {
    let (database, rest) = part(text)?;
    let rest = rest.strip_prefix('.').ok_or(Problem::NotTwoParts)?;
    let (table, rest) = part(rest)?;
    if rest.is_empty() { Ok(Pattern { database, table }) } else { Err(Problem::NotTwoParts) }
}

/// The part at the beginning of `text`, and what follows it.
fn part(text: &str) -> Result<(Part, &str), Problem> {
    if let Some(quoted) = text.strip_prefix('`') {
        return quoted_part(quoted);
    }
    let (bare, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    if bare.contains('`') {
        return Err(Problem::StrayBackquote);
    }
    if bare.contains(char::is_whitespace) {
        return Err(Problem::Blank);
    }
    if bare.is_empty() {
        return Err(Problem::EmptyPart);
    }
    Ok((Part { runs: bare.split('*').map(str::to_owned).collect() }, rest))
}

/// As [`part`], past the opening backquote.
fn quoted_part(mut text: &str) -> Result<(Part, &str), Problem> {
    let mut name = String::new();
    loop {
        let (before, after) = text.split_once('`').ok_or(Problem::UnclosedQuote)?;
        name.push_str(before);
        let Some(more) = after.strip_prefix('`') else {
            if name.is_empty() {
                return Err(Problem::EmptyPart);
            }
            return match after.chars().next() {
                None | Some('.') => Ok((Part { runs: vec![name] }, after)),
                Some(_) => Err(Problem::StrayBackquote),
            };
        };
        name.push('`');
        text = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Result<Filter, FilterError> {
        let owned = |patterns: &[&str]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
        Filter::new(&owned(include), &owned(exclude))
    }

    fn matches(pattern: &str, database: &str, table: &str) -> bool {
        filter(&[pattern], &[]).unwrap().matches(database, table)
    }

    #[test]
    fn asterisks_stand_for_any_run() {
        assert!(matches("app.*", "app", "users"));
        assert!(matches("a*p.u*r*s", "app", "users"));
        assert!(matches("*.*", "x", "y"));
        assert!(matches("app.users*", "app", "users"));
        assert!(!matches("app.user", "app", "users"));
        assert!(!matches("app.*s_old", "app", "users"));
        assert!(!matches("app.aba*aba", "app", "aba"));
        assert!(matches("app.*ab*ab", "app", "abab"));
        assert!(!matches("app.*ab*ab", "app", "xab"));
    }

    #[test]
    fn case_counts() {
        assert!(!matches("App.users", "app", "users"));
        assert!(!matches("app.Users", "app", "users"));
    }

    #[test]
    fn backquotes_take_the_name_literally() {
        assert!(matches("`my.db`.t", "my.db", "t"));
        assert!(matches("`a``b`.`c d`", "a`b", "c d"));
        assert!(matches("app.`t*`", "app", "t*"));
        assert!(!matches("app.`t*`", "app", "tx"));
    }

    #[test]
    fn excluded_tables_do_not_match() {
        let filter = filter(&["app.*", "log.events"], &["app.tmp_*", "*.secret"]).unwrap();
        assert!(filter.matches("app", "users"));
        assert!(!filter.matches("app", "tmp_1"));
        assert!(!filter.matches("app", "secret"));
        assert!(filter.matches("log", "events"));
        assert!(!filter.matches("log", "other"));
    }

    #[test]
    fn a_database_is_ruled_out_only_when_no_table_of_it_can_match() {
        let filter = filter(&["app.*", "dev*.users"], &["app.tmp_*", "dev2.*", "dev3.users"]).unwrap();
        assert!(filter.may_match_in("app"));
        assert!(filter.may_match_in("dev1"));
        assert!(filter.may_match_in("dev3"));
        assert!(!filter.may_match_in("dev2"));
        assert!(!filter.may_match_in("other"));
    }

    #[test]
    fn system_schemas_never_match() {
        let all = filter(&["*.*"], &[]).unwrap();
        for schema in ["mysql", "sys", "information_schema", "INFORMATION_SCHEMA", "performance_schema"] {
            assert!(!all.matches(schema, "t"), "{schema}");
            assert!(!all.may_match_in(schema), "{schema}");
            let error = filter(&[&format!("{schema}.*")], &[]).unwrap_err();
            assert_eq!(error.problem, Problem::SystemSchema);
        }
        assert!(all.matches("mysql2", "t"));
    }

    #[test]
    fn errors_name_the_pattern() {
        for (pattern, problem) in [
            ("users", Problem::NotTwoParts),
            ("a.b.c", Problem::NotTwoParts),
            (".users", Problem::EmptyPart),
            ("app.", Problem::EmptyPart),
            ("app.``", Problem::EmptyPart),
            ("app.`users", Problem::UnclosedQuote),
            ("app.us`ers", Problem::StrayBackquote),
            ("`a`b.c", Problem::StrayBackquote),
            ("app. users", Problem::Blank),
            ("", Problem::EmptyPart),
        ] {
            let error = filter(&["ok.ok"], &[pattern]).unwrap_err();
            assert_eq!((error.pattern.as_str(), error.problem), (pattern, problem));
            assert!(error.to_string().contains(pattern));
        }
    }

    /// The textbook recursion, as an oracle.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            Some((c, rest)) => name.first() == Some(c) && naive(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab*]{1,8}", name in "[abé]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&format!("d.{pattern}"), "d", &name), naive(&chars(&pattern), &chars(&name)));
        }
    }
}
