//! From file, environment and defaults to one typed value per key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use toml::Value as Toml;

use super::keys::{self, Fallback, KEYS, Key, Kind, OPEN_SECTION, PREFIX, SECTIONS, SEPARATOR};
use super::policies::{self, ColumnPolicy};
use super::schema::{self, Single};
use super::units;
use super::{Environment, Problems};

/// A value of the kind that its key takes, within the key's bounds.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    List(Vec<String>),
    Boolean(bool),
    /// An integer, or a size in bytes.
    Number(u64),
    Duration(Duration),
}

/// The typed value of every key that has one, and what was wrong with the others.
///
/// A getter answers `None` for a key that is unset, or was set to something that is already
/// among the problems.
pub(super) struct Settings<'a> {
    pub(super) environment: &'a Environment,
    pub(super) problems: Problems,
    /// Policies of single columns: their names are not in the table of keys.
    pub(super) column_policies: Vec<ColumnPolicy>,
    /// The same of schema.
    pub(super) single: Single,
    values: BTreeMap<&'static str, Value>,
    /// The entries of the open section that are texts.
    open: BTreeMap<String, String>,
}

/// Whether the environment sets any key.
pub(super) fn any_set(environment: &Environment) -> bool {
    variables(environment).next().is_some()
}

/// Variables that are meant for us: with the prefix and the separator. Without the separator
/// they may be anything; Kubernetes, for one, sets `TIDEGATE_PORT` next to a service so named.
fn variables(environment: &Environment) -> impl Iterator<Item = &str> {
    environment.names().filter(|name| name.starts_with(PREFIX) && name.contains(SEPARATOR))
}

impl<'a> Settings<'a> {
    /// Overlays the environment on the file's text on the defaults.
    ///
    /// # Errors
    /// Only where the text is no TOML. Other problems are collected.
    pub(super) fn collect(text: &str, environment: &'a Environment) -> Result<Self, Problems> {
        let file = parse_toml(text)?;
        let mut settings = Self {
            environment,
            problems: Problems::default(),
            column_policies: Vec::new(),
            single: Single::default(),
            values: BTreeMap::new(),
            open: BTreeMap::new(),
        };
        if let Some(Toml::Table(section)) = file.get(policies::SECTION) {
            settings.column_policies = policies::of_columns(section, &mut settings.problems);
        }
        if let Some(Toml::Table(section)) = file.get(schema::SECTION) {
            settings.single = schema::of_single(section, &mut settings.problems);
        }
        settings.refuse_unknown_keys(&file);
        for key in KEYS {
            settings.take(key, &file);
        }
        settings.refuse_unknown_variables();
        Ok(settings)
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        match self.get(path)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self, path: &str) -> Option<&[String]> {
        match self.get(path)? {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    pub(super) fn boolean(&self, path: &str) -> Option<bool> {
        match self.get(path)? {
            Value::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// An integer or a size, as any type that holds the key's bounds.
    pub(super) fn number<T: TryFrom<u64>>(&self, path: &str) -> Option<T> {
        match self.get(path)? {
            Value::Number(value) => T::try_from(*value).ok(),
            _ => None,
        }
    }

    pub(super) fn duration(&self, path: &str) -> Option<Duration> {
        match self.get(path)? {
            Value::Duration(value) => Some(*value),
            _ => None,
        }
    }

    fn get(&self, path: &str) -> Option<&Value> {
        debug_assert!(keys::find(path).is_some(), "{path} is not in the table of keys");
        self.values.get(path)
    }

    fn take(&mut self, key: &'static Key, file: &toml::Table) {
        let variable = key.variable();
        let in_file = file.get(key.section()).and_then(|section| section.get(key.name()));
        let value = match (self.environment.text(&variable), in_file) {
            (Ok(Some(text)), _) => {
                from_text(key.kind, text).map_err(|expected| format!("{expected} (set by {variable})"))
            }
            (Err(_), _) => Err(format!("{variable} is not UTF-8 text")),
            (Ok(None), Some(value)) => from_toml(key.kind, value),
            (Ok(None), None) => match key.default {
                Fallback::Value(text) => from_text(key.kind, text),
                Fallback::Unset(_) => return,
                Fallback::Required(example) => Err(missing(key, example)),
            },
        };
        match value {
            Ok(value) => {
                self.values.insert(key.path, value);
            }
            Err(message) => self.problems.add(key.path, message),
        }
    }

    fn refuse_unknown_keys(&mut self, file: &toml::Table) {
        for (section, content) in file {
            let Some((section, _)) = SECTIONS.iter().find(|(name, _)| name == section) else {
                let near = nearest(section, SECTIONS.iter().map(|(name, _)| *name));
                self.problems.add(section, format!("is no section. {}", did_you_mean(near)));
                continue;
            };
            let Some(content) = content.as_table() else {
                self.problems.add(*section, format!("is a section: write [{section}] and its keys below it"));
                continue;
            };
            if *section == OPEN_SECTION {
                self.take_open(content);
                continue;
            }
            for (name, value) in content {
                // What is said of a single column or table.
                if [policies::SECTION, schema::SECTION].contains(section) && value.is_table() {
                    continue;
                }
                let path = format!("{section}.{name}");
                if keys::find(&path).is_none() {
                    let message = unknown(section, name);
                    self.problems.add(path, message);
                }
            }
        }
    }

    fn take_open(&mut self, content: &toml::Table) {
        for (name, value) in content {
            match value.as_str() {
                Some(text) => {
                    self.open.insert(name.clone(), text.to_owned());
                }
                None => self.problems.add(
                    format!("{OPEN_SECTION}.{name}"),
                    "must be a text; a key with dots or brackets stands in double quotes",
                ),
            }
        }
    }

    /// The entries of the open section, in order of name.
    pub(super) fn open_entries(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.open)
    }

    /// A variable that one of the `…_env` keys names is a secret, whatever it is called.
    fn refuse_unknown_variables(&mut self) {
        let named: BTreeSet<&str> = KEYS
            .iter()
            .filter(|key| key.path.ends_with("_env"))
            .filter_map(|key| self.text(key.path))
            .collect();
        let mut unknown_variables = Vec::new();
        for variable in variables(self.environment).filter(|name| !named.contains(name)) {
            let known = KEYS.iter().any(|key| key.variable() == variable);
            let path = variable.trim_start_matches(PREFIX).to_ascii_lowercase();
            if let (false, Some((section, name))) = (known, path.split_once(SEPARATOR)) {
                unknown_variables.push((variable.to_owned(), unknown(section, name)));
            }
        }
        for (variable, message) in unknown_variables {
            self.problems.add(variable, message);
        }
    }
}

/// The error of the parser without the excerpt that it would show: that may hold a secret.
fn parse_toml(text: &str) -> Result<toml::Table, Problems> {
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        Problems::one(format!("line {line}"), format!("is not valid TOML: {}", error.message()))
    })
}

fn missing(key: &Key, example: &str) -> String {
    let choices = match key.kind {
        Kind::Choice(choices) => format!("; one of {}", quoted(choices)),
        _ => String::new(),
    };
    format!(
        "is missing{choices}. For example {} = {example}, or {} in the environment",
        key.name(),
        key.variable()
    )
}

fn unknown(section: &str, name: &str) -> String {
    match name {
        "password" => {
            return "is no key: secrets are not written here. Use password_file or password_env".to_owned();
        }
        "token" => return "is no key: secrets are not written here. Use token_file or token_env".to_owned(),
        _ => {}
    }
    let elsewhere = KEYS.iter().find(|key| key.name() == name && key.section() != section);
    let near = nearest(name, KEYS.iter().filter(|key| key.section() == section).map(Key::name))
        .or_else(|| elsewhere.map(|key| key.path));
    format!("is no key. {}", did_you_mean(near))
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(
        || "`tidegate init` writes a file with all of them".to_owned(),
        |near| format!("Did you mean {near}?"),
    )
}

/// The candidate within two edits of `word`, or within a third of it where that is less.
fn nearest<'k>(word: &str, candidates: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let limit = (word.chars().count() / 3).min(2);
    candidates
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, above) in b.iter().zip(row.iter_mut().skip(1)) {
            let cost = (diagonal + usize::from(x != *y)).min(left + 1).min(*above + 1);
            diagonal = std::mem::replace(above, cost);
            left = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// What the kind takes, as the end of "must be …".
pub(super) fn expected(kind: Kind) -> String {
    match kind {
        Kind::Text => "a text".to_owned(),
        Kind::Path => "the path of a file".to_owned(),
        Kind::List => "a list of texts".to_owned(),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Choice(choices) if choices.len() == 1 => quoted(choices),
        Kind::Choice(choices) => format!("one of {}", quoted(choices)),
        Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Duration { min, max } => {
            let (min, max) = (units::show_duration(min), units::show_duration(max));
            format!("a duration from {min} to {max}, as 250ms, 5s, 10m, 2h or 1d")
        }
        Kind::Size { min, max } => {
            let (min, max) = (units::show_size(min), units::show_size(max));
            format!("a size from {min} to {max}, in bytes or as 512KiB, 64MiB or 2GiB")
        }
    }
}

fn quoted(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(", ")
}

fn from_toml(kind: Kind, value: &Toml) -> Result<Value, String> {
    match (kind, value) {
        (Kind::List, Toml::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .map(Value::List)
            .ok_or_else(|| must_be(kind)),
        (Kind::Boolean, Toml::Boolean(value)) => Ok(Value::Boolean(*value)),
        (Kind::Integer { .. } | Kind::Size { .. }, Toml::Integer(number)) => {
            u64::try_from(*number).ok().and_then(|number| bounded(kind, number)).ok_or_else(|| must_be(kind))
        }
        (Kind::List | Kind::Boolean | Kind::Integer { .. }, _) => Err(must_be(kind)),
        (_, Toml::String(text)) => from_text(kind, text),
        _ => Err(must_be(kind)),
    }
}

/// Reads the environment's notation: no quotes, lists separated by commas.
fn from_text(kind: Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Text | Kind::Path => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
        Kind::List => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(Value::List(items.map(str::to_owned).collect()))
        }
        Kind::Boolean => text.parse().ok().map(Value::Boolean),
        Kind::Choice(choices) => choices.contains(&text).then(|| Value::Text(text.to_owned())),
        Kind::Integer { .. } => {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().and_then(|number| bounded(kind, number))
        }
        Kind::Size { .. } => units::size(text).and_then(|number| bounded(kind, number)),
        Kind::Duration { min, max } => {
            units::duration(text).filter(|value| (min..=max).contains(value)).map(Value::Duration)
        }
    }
    .ok_or_else(|| must_be(kind))
}

fn bounded(kind: Kind, number: u64) -> Option<Value> {
    match kind {
        Kind::Integer { min, max } | Kind::Size { min, max } => {
            (min..=max).contains(&number).then_some(Value::Number(number))
        }
        _ => None,
    }
}

fn must_be(kind: Kind) -> String {
    format!("must be {}", expected(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, distance) in
            [("", "", 0), ("tls", "tls", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(edits(a, b), distance, "{a} {b}");
            assert_eq!(edits(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn every_default_is_of_its_kind_and_within_bounds() {
        for key in KEYS {
            if let Fallback::Value(text) = key.default {
                assert!(from_text(key.kind, text).is_ok(), "{}", key.path);
            }
        }
    }
}
