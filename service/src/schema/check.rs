//! CHECK constraints whose meaning is the same on both servers, in PostgreSQL's words.
//!
//! PostgreSQL enforces a CHECK for replicated rows too, so that one which refuses what MySQL accepts
//! would halt the pipeline. Taken are comparisons, BETWEEN, IN and IS NULL over exact numbers, and
//! over the lengths of texts, joined by AND, OR and NOT. Not taken are comparisons of texts, which
//! MySQL makes by its collation, of dates, which may be NULL on the target where they are zero on
//! the source, of floating-point numbers, and anything else.

use super::charset::Charset;
use super::default::unescape;
use super::render::quote_ident;
use super::{Column, MysqlType, TableModel, TargetType};

/// Nesting that an expression may have: the server's own parser allows little more.
const DEPTH_MAX: usize = 64;

/// The condition on the target; `None` where its meaning is not exactly known.
pub(super) fn translate(clause: &str, model: &TableModel) -> Option<String> {
    let text = unescape(clause)?;
    let tokens = tokenize(&text)?;
    let mut parser = Parser { model, tokens: &tokens, at: 0, depth: 0 };
    let condition = parser.disjunction()?;
    (parser.at == tokens.len()).then_some(condition)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A name in backticks.
    Name(String),
    /// An unquoted word.
    Word(String),
    /// Digits, with a point and more of them.
    Number(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 13] = ["<=>", "<>", "!=", "<=", ">=", "<", ">", "=", "(", ")", ",", "-", "+"];

fn tokenize(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first == '`' {
            quoted_name(rest)?
        } else if first.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            // An exponent makes a number inexact, `x` one in another base.
            if rest.get(length..)?.starts_with(|c: char| c.is_ascii_alphabetic()) {
                return None;
            }
            (Token::Number(number(rest.get(..length)?)?), length)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Word(rest.get(..length)?.to_ascii_lowercase()), length)
        } else {
            let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol))?;
            (Token::Symbol(symbol), symbol.len())
        };
        tokens.push(token);
        rest = rest.get(length..)?.trim_start();
    }
    Some(tokens)
}

fn quoted_name(text: &str) -> Option<(Token, usize)> {
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    loop {
        match chars.next()? {
            (_, '`') if chars.next_if(|(_, next)| *next == '`').is_some() => name.push('`'),
            (at, '`') => return Some((Token::Name(name), at + 1)),
            (_, other) => name.push(other),
        }
    }
}

fn number(text: &str) -> Option<String> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        None => digits(text),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
    }
    .then(|| text.to_owned())
}

struct Parser<'a> {
    model: &'a TableModel,
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn word(&mut self, word: &str) -> Option<()> {
        let found = matches!(self.tokens.get(self.at), Some(Token::Word(next)) if next == word);
        self.advance_if(found)
    }

    fn symbol(&mut self, symbol: &str) -> Option<()> {
        let found = matches!(self.tokens.get(self.at), Some(Token::Symbol(next)) if *next == symbol);
        self.advance_if(found)
    }

    fn advance_if(&mut self, found: bool) -> Option<()> {
        self.at += usize::from(found);
        found.then_some(())
    }

    /// What `parse` takes; nothing is taken where it fails.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.at;
        let parsed = parse(self);
        if parsed.is_none() {
            self.at = start;
        }
        parsed
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn disjunction(&mut self) -> Option<String> {
        self.joined("or", " OR ", Self::conjunction)
    }

    fn conjunction(&mut self) -> Option<String> {
        self.joined("and", " AND ", Self::negation)
    }

    fn joined(
        &mut self,
        word: &str,
        operator: &str,
        parse: impl Fn(&mut Self) -> Option<String>,
    ) -> Option<String> {
        let mut terms = vec![parse(self)?];
        while self.word(word).is_some() {
            terms.push(parse(self)?);
        }
        if terms.len() == 1 { terms.pop() } else { Some(format!("({})", terms.join(operator))) }
    }

    fn negation(&mut self) -> Option<String> {
        if self.word("not").is_some() {
            return self.nested(Self::negation).map(|inner| format!("(NOT {inner})"));
        }
        self.attempt(Self::predicate).or_else(|| {
            self.symbol("(")?;
            let inner = self.nested(Self::disjunction)?;
            self.symbol(")")?;
            Some(inner)
        })
    }

    fn predicate(&mut self) -> Option<String> {
        if let Some(test) = self.attempt(Self::null_test) {
            return Some(test);
        }
        let left = self.operand()?;
        let not = self.word("not").map_or("", |()| "NOT ");
        if self.word("between").is_some() {
            let low = self.operand()?;
            self.word("and")?;
            let high = self.operand()?;
            return Some(format!("({left} {not}BETWEEN {low} AND {high})"));
        }
        if self.word("in").is_some() {
            self.symbol("(")?;
            let mut members = vec![self.operand()?];
            while self.symbol(",").is_some() {
                members.push(self.operand()?);
            }
            self.symbol(")")?;
            return Some(format!("({left} {not}IN ({}))", members.join(", ")));
        }
        let Some(Token::Symbol(symbol)) = self.tokens.get(self.at) else { return None };
        let operator = match *symbol {
            "<=>" => "IS NOT DISTINCT FROM",
            "!=" => "<>",
            "=" | "<>" | "<" | "<=" | ">" | ">=" => symbol,
            _ => return None,
        };
        self.at += 1;
        let right = self.operand()?;
        not.is_empty().then(|| format!("({left} {operator} {right})"))
    }

    /// Any column but a date, which can be NULL on the target alone.
    fn null_test(&mut self) -> Option<String> {
        let column = self.column()?;
        let is_date = matches!(
            column.mysql,
            MysqlType::Date | MysqlType::DateTime { .. } | MysqlType::Timestamp { .. }
        );
        let name = (!is_date).then(|| quote_ident(&column.name).ok()).flatten()?;
        self.word("is")?;
        let not = self.word("not").map_or("", |()| "NOT ");
        self.word("null")?;
        Some(format!("({name} IS {not}NULL)"))
    }

    fn column(&mut self) -> Option<&Column> {
        let Some(Token::Name(name)) = self.tokens.get(self.at) else { return None };
        self.at += 1;
        // MySQL's column names know no case.
        let same =
            |column: &&Column| column.name == *name || column.name.to_lowercase() == name.to_lowercase();
        self.model.columns.iter().find(same)
    }

    /// A number: a constant, an exact column, or the length of a text.
    fn operand(&mut self) -> Option<String> {
        if self.symbol("-").is_some() {
            let inner = self.attempt(Self::constant).or_else(|| {
                self.symbol("(")?;
                let inner = self.constant()?;
                self.symbol(")")?;
                Some(inner)
            })?;
            return Some(format!("-{inner}"));
        }
        if self.symbol("(").is_some() {
            let inner = self.nested(Self::operand)?;
            self.symbol(")")?;
            return Some(inner);
        }
        self.attempt(Self::constant).or_else(|| self.attempt(Self::exact_column)).or_else(|| self.length())
    }

    fn constant(&mut self) -> Option<String> {
        let Some(Token::Number(number)) = self.tokens.get(self.at) else { return None };
        self.at += 1;
        Some(number.clone())
    }

    fn exact_column(&mut self) -> Option<String> {
        let column = self.column()?;
        let exact = matches!(
            column.target,
            TargetType::SmallInt | TargetType::Integer | TargetType::BigInt | TargetType::Numeric { .. }
        );
        // MySQL takes a number of two digits for a year of this or the last century.
        (exact && column.mysql != MysqlType::Year).then(|| quote_ident(&column.name).ok()).flatten()
    }

    fn length(&mut self) -> Option<String> {
        let Some(Token::Word(function)) = self.tokens.get(self.at) else { return None };
        let in_characters = match function.as_str() {
            "char_length" | "character_length" => true,
            "length" | "octet_length" => false,
            _ => return None,
        };
        self.at += 1;
        self.symbol("(")?;
        let column = self.column()?;
        let function = length_function(&column.mysql, in_characters)?;
        let name = quote_ident(&column.name).ok()?;
        self.symbol(")")?;
        Some(format!("{function}({name})"))
    }
}

/// The function that counts what MySQL's counts: bytes of a text are the same ones in UTF-8 only.
fn length_function(mysql: &MysqlType, in_characters: bool) -> Option<&'static str> {
    match mysql {
        MysqlType::Char { charset, .. }
        | MysqlType::Varchar { charset, .. }
        | MysqlType::Text { charset } => {
            if in_characters {
                return Some("char_length");
            }
            let utf8 = [Charset::Utf8mb4, Charset::Utf8mb3, Charset::Ascii];
            Charset::from_name(charset)
                .is_some_and(|charset| utf8.contains(&charset))
                .then_some("octet_length")
        }
        MysqlType::Binary { .. } | MysqlType::Varbinary { .. } | MysqlType::Blob => Some("octet_length"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
