//! What `information_schema.PARTITIONS` says of a table (MySQL manual, "The INFORMATION_SCHEMA
//! PARTITIONS Table").

/// A table's partitions on the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePartitions {
    /// `PARTITION_METHOD`.
    pub method: String,
    /// `PARTITION_EXPRESSION`: columns in backticks with commas between them, or an expression as the
    /// server prints it. `None` for KEY by the whole key.
    pub expression: Option<String>,
    pub has_subpartitions: bool,
    /// In the order of the source.
    pub partitions: Vec<SourcePartition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePartition {
    pub name: String,
    /// `PARTITION_DESCRIPTION`: the bound, or the values of a list; `None` for HASH and KEY.
    pub description: Option<String>,
}

impl SourcePartitions {
    pub(super) fn expression(&self) -> &str {
        self.expression.as_deref().unwrap_or_default()
    }
}

impl SourcePartition {
    pub(super) fn description(&self) -> &str {
        self.description.as_deref().unwrap_or_default()
    }
}

/// `PARTITION_METHOD`; LINEAR makes no difference to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    Range,
    RangeColumns,
    List,
    ListColumns,
    Hash,
    Key,
}

impl Strategy {
    pub(super) fn from_method(method: &str) -> Option<Self> {
        Some(match method {
            "RANGE" => Self::Range,
            "RANGE COLUMNS" => Self::RangeColumns,
            "LIST" => Self::List,
            "LIST COLUMNS" => Self::ListColumns,
            "HASH" | "LINEAR HASH" => Self::Hash,
            "KEY" | "LINEAR KEY" => Self::Key,
            _ => return None,
        })
    }
}

/// What is taken of a column before it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// The column itself.
    Identity,
    ToDays,
    ToSeconds,
    Year,
    /// Also of `FLOOR(UNIX_TIMESTAMP(…))`, which is below a whole number where its argument is.
    UnixTimestamp,
}

/// In lower case.
const FUNCTIONS: &[(&str, &str, Function)] = &[
    ("to_days(", ")", Function::ToDays),
    ("to_seconds(", ")", Function::ToSeconds),
    ("year(", ")", Function::Year),
    ("unix_timestamp(", ")", Function::UnixTimestamp),
    ("floor(unix_timestamp(", "))", Function::UnixTimestamp),
];

/// The function and the column of an expression that is a column, or one of these functions of one.
pub(super) fn function_of(expression: &str) -> Option<(Function, String)> {
    let called = FUNCTIONS.iter().find_map(|(opening, closing, function)| {
        let start = expression.get(..opening.len())?;
        let inner = expression.get(opening.len()..)?.strip_suffix(closing)?;
        start.eq_ignore_ascii_case(opening).then_some((*function, inner))
    });
    let (function, inner) = called.unwrap_or((Function::Identity, expression));
    let [column] = <[String; 1]>::try_from(columns_of(inner)?).ok()?;
    Some((function, column))
}

/// The columns of a list of nothing but columns. Servers before 8.0 print them as they were written,
/// without backticks.
pub(super) fn columns_of(list: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = list;
    loop {
        let (name, after) = column(rest)?;
        columns.push(name);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Some(columns),
            None => return None,
        }
    }
}

/// A name and what follows it.
fn column(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('`') else {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
        let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
        let name = text.get(..end).filter(|name| !name.is_empty())?;
        return Some((name.to_owned(), text.get(end..)?));
    };
    let (name, rest) = until_quote(quoted, '`')?;
    Some((name, rest))
}

/// What stands before a closing quote, where two of them are one, and what follows it.
fn until_quote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(quote)?;
        content.push_str(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
        match rest.strip_prefix(quote) {
            Some(more) => {
                content.push(quote);
                rest = more;
            }
            None => return Some((content, rest)),
        }
    }
}

/// A constant of a partition's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    MaxValue,
    Null,
    Number(i128),
    Text(String),
}

/// The constants of a description; `None` where it has any of another form, such as a text with an
/// escape, a text of another character set or a tuple.
pub(super) fn items(description: &str) -> Option<Vec<Item>> {
    let mut items = Vec::new();
    let mut rest = description;
    loop {
        let (item, after) = match rest.strip_prefix('\'') {
            Some(quoted) => {
                let (text, after) = until_quote(quoted, '\'').filter(|(text, _)| !text.contains('\\'))?;
                (Item::Text(text), after)
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (word(rest.get(..end)?)?, rest.get(end..)?)
            }
        };
        items.push(item);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Some(items),
            None => return None,
        }
    }
}

fn word(text: &str) -> Option<Item> {
    match text {
        "MAXVALUE" => Some(Item::MaxValue),
        "NULL" => Some(Item::Null),
        number => number.parse().ok().map(Item::Number),
    }
}
