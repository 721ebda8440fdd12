//! What a server makes of every byte sequence of a character set.

use anyhow::{Context, Result, ensure};

use crate::mysql::MySqlSession;

/// A byte sequence that the server takes for one character of its character set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    pub bytes: Vec<u8>,
    /// The code point that it converts to; `None` where the server has none for it.
    pub code_point: Option<u32>,
    /// The code point converts back to the same bytes.
    pub restored: bool,
}

/// Every character of a character set whose first bytes below 0x80 are characters of their own, in
/// the order of length and bytes. Characters of three bytes are looked for in EUC's form, those of
/// four bytes in that of GB18030.
pub async fn sequences(session: &mut MySqlSession, charset: &str) -> Result<Vec<Sequence>> {
    // A warning for each ill-formed sequence would be kept.
    session.exec("SET SESSION max_error_count = 0").await?;
    let sql = "SELECT MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME";
    let longest = session.scalar(&format!("{sql} = '{charset}'")).await?;
    let longest = longest.with_context(|| format!("the server does not have {charset}"))?;
    let all = "BETWEEN 0 AND 255";
    let mut forms = vec![vec![all]];
    match longest.as_str() {
        "1" => {}
        "2" => forms.push(vec!["> 127", all]),
        "3" => forms.extend([vec!["> 127", all], vec!["IN (142, 143)", all, all]]),
        _ => forms
            .extend([vec!["> 127", all], vec!["> 128", "BETWEEN 48 AND 57", "> 128", "BETWEEN 48 AND 57"]]),
    }
    let mut sequences = Vec::new();
    for form in forms {
        let sql = query(charset, &form);
        for row in session.rows(&sql).await? {
            sequences.push(sequence(&row).context("an answer in another form than asked for")?);
        }
    }
    ensure!(!sequences.is_empty(), "the server knows no character of {charset}");
    Ok(sequences)
}

fn query(charset: &str, form: &[&str]) -> String {
    let tables: Vec<String> = (0..form.len()).map(|i| format!("all_bytes AS b{i}")).collect();
    let bytes: Vec<String> = (0..form.len()).map(|i| format!("b{i}.byte")).collect();
    let conditions: Vec<String> =
        form.iter().enumerate().map(|(i, range)| format!("b{i}.n {range}")).collect();
    format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 255),
              all_bytes AS (SELECT n, CHAR(n) AS byte FROM numbers)
         SELECT HEX(bytes), HEX(CONVERT(text USING utf32)),
                HEX(CONVERT(CONVERT(text USING utf32) USING {charset})) = HEX(bytes)
         FROM (SELECT CONCAT({bytes}) AS bytes, CONVERT(CONCAT({bytes}) USING {charset}) AS text
               FROM {tables} WHERE {conditions}) AS sequences
         WHERE CHAR_LENGTH(text) = 1 ORDER BY bytes",
        bytes = bytes.join(", "),
        tables = tables.join(", "),
        conditions = conditions.join(" AND "),
    )
}

fn sequence(row: &[Option<String>]) -> Option<Sequence> {
    let [Some(bytes), code_point, restored] = row else { return None };
    let digits = bytes.as_bytes().chunks(2);
    let bytes: Vec<u8> = digits
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<_>>()?;
    // The server gives nothing for some sequences, and a question mark for others.
    let code_point = match code_point.as_deref() {
        None | Some("") => None,
        Some(digits) => Some(u32::from_str_radix(digits, 16).ok()?),
    };
    let is_lost = code_point == Some(u32::from(b'?')) && bytes != b"?";
    Some(Sequence {
        code_point: code_point.filter(|_| !is_lost),
        restored: restored.as_deref() == Some("1"),
        bytes,
    })
}
