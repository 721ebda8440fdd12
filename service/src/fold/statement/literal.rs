//! Literals: from the statement's bytes to values.

use super::super::charset::ClientCharset;
use super::super::lexer::{Token, Unlexable};
use super::parser::{Parsed, Parser};
use crate::schema::charset::{self, Charset};
use crate::schema::ddl::{DefaultValue, Literal};

/// CURRENT_TIMESTAMP and its synonyms (MySQL manual, "Automatic Initialization and Updating for
/// TIMESTAMP and DATETIME").
const NOW: &[&str] = &["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"];

impl<'a> Parser<'a> {
    /// What follows DEFAULT.
    pub(super) fn default_value(&mut self) -> Parsed<DefaultValue> {
        if let Some(digits) = self.now()? {
            return Ok(DefaultValue::Now(digits));
        }
        if self.accept_symbol(b'(')? {
            self.skip_group()?;
            return Ok(DefaultValue::Expression);
        }
        self.literal().map(DefaultValue::Literal)
    }

    /// CURRENT_TIMESTAMP[([n])] or a synonym.
    pub(super) fn now(&mut self) -> Parsed<Option<u8>> {
        if self.accept_any(NOW)?.is_none() {
            return Ok(None);
        }
        if !self.accept_symbol(b'(')? || self.accept_symbol(b')')? {
            return Ok(Some(0));
        }
        let digits = u8::try_from(self.integer()?).map_err(|_| Unlexable)?;
        self.expect_symbol(b')')?;
        Ok(Some(digits))
    }

    /// `literal` or a signed number.
    pub(super) fn literal(&mut self) -> Parsed<Literal> {
        let negative = self.accept_symbol(b'-')?;
        let signed = negative || self.accept_symbol(b'+')?;
        if let Some(number) = self.lexer.number()? {
            let number = str::from_utf8(number).map_err(|_| Unlexable)?;
            let sign = if negative { "-" } else { "" };
            return Ok(Literal::Number(format!("{sign}{number}")));
        }
        if signed {
            return Err(Unlexable);
        }
        match self.some()? {
            Token::Text(text, quote) => self.text(text, quote),
            Token::Word(word) => self.word_literal(word),
            Token::Quoted(..) | Token::Symbol(_) => Err(Unlexable),
        }
    }

    fn word_literal(&mut self, word: &'a [u8]) -> Parsed<Literal> {
        match word {
            word if word.eq_ignore_ascii_case(b"NULL") => return Ok(Literal::Null),
            word if word.eq_ignore_ascii_case(b"TRUE") => return Ok(Literal::Boolean(true)),
            word if word.eq_ignore_ascii_case(b"FALSE") => return Ok(Literal::Boolean(false)),
            // Only in lower case are these numbers.
            [b'0', b'x', digits @ ..] => return hex(digits).map(Literal::Bytes),
            [b'0', b'b', digits @ ..] => return bits(digits).map(Literal::Bits),
            _ => {}
        }
        if let [b'_', introducer @ ..] = word {
            return self.introduced(introducer);
        }
        let Token::Text(text, quote) = self.some()? else { return Err(Unlexable) };
        match word {
            [b'x' | b'X'] => hex(text).map(Literal::Bytes),
            [b'b' | b'B'] => bits(text).map(Literal::Bits),
            [b'n' | b'N'] => self.text(text, quote),
            _ if ["DATE", "TIME", "TIMESTAMP"].iter().any(|kind| Token::Word(word).is(kind)) => {
                match self.text(text, quote)? {
                    Literal::Text(text) => Ok(Literal::Temporal(text)),
                    _ => Ok(Literal::Opaque),
                }
            }
            _ => Err(Unlexable),
        }
    }

    /// A string, and those that follow it, which it is one with. The server converts it from the
    /// client's character set to the connection's.
    fn text(&mut self, text: &[u8], quote: u8) -> Parsed<Literal> {
        let bytes = self.joined(text, quote)?;
        let Some(text) = self.charset.decode(&bytes) else { return Ok(Literal::Opaque) };
        if self.survives_the_connection(&text) {
            Ok(Literal::Text(text.into_owned()))
        } else {
            Ok(Literal::Opaque)
        }
    }

    fn joined(&mut self, text: &[u8], quote: u8) -> Parsed<Vec<u8>> {
        let mut bytes = self.lexer.unescape(text, quote)?;
        while let Some(Token::Text(text, quote)) = self.peek()? {
            self.some()?;
            bytes.extend(self.lexer.unescape(text, quote)?);
        }
        Ok(bytes)
    }

    /// Whether the connection's character set has all the characters of a text.
    fn survives_the_connection(&self, text: &str) -> bool {
        let connection = self.connection_collation.map(u32::from).and_then(charset::of_collation);
        match connection {
            Some("utf8mb4" | "utf16" | "utf16le" | "utf32") => true,
            Some("utf8mb3" | "ucs2") => text.chars().all(|char| u32::from(char) <= 0xffff),
            Some("latin1") => self.charset == ClientCharset::Latin1 || text.is_ascii(),
            Some("swe7") => text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' '),
            Some(_) | None => text.is_ascii(),
        }
    }

    /// `_charset'…'`, `_charset x'…'`: bytes that are in that character set already.
    fn introduced(&mut self, introducer: &[u8]) -> Parsed<Literal> {
        let bytes = match self.some()? {
            Token::Text(text, quote) => self.joined(text, quote)?,
            Token::Word([b'0', b'x', digits @ ..]) => hex(digits)?,
            Token::Word([b'0', b'b', digits @ ..]) => bits(digits)?,
            Token::Word([b'x' | b'X']) => hex(self.bare_text()?)?,
            Token::Word([b'b' | b'B']) => bits(self.bare_text()?)?,
            _ => return Err(Unlexable),
        };
        let name = introducer.to_ascii_lowercase();
        if name == b"binary" {
            return Ok(Literal::Bytes(bytes));
        }
        let known = str::from_utf8(&name).ok().and_then(Charset::from_name);
        Ok(match known {
            Some(Charset::Latin1) => {
                Literal::Text(bytes.iter().map(|byte| charset::latin1_char(*byte)).collect())
            }
            Some(Charset::Utf8mb4 | Charset::Utf8mb3) => {
                String::from_utf8(bytes).map_or(Literal::Opaque, Literal::Text)
            }
            Some(other) if other.is_ascii_superset() && bytes.is_ascii() => {
                String::from_utf8(bytes).map_or(Literal::Opaque, Literal::Text)
            }
            Some(_) | None => Literal::Opaque,
        })
    }

    fn bare_text(&mut self) -> Parsed<&'a [u8]> {
        match self.some()? {
            Token::Text(text, _) => Ok(text),
            _ => Err(Unlexable),
        }
    }

    /// A string that names or describes something: COMMENT, an option's value.
    pub(super) fn string(&mut self) -> Parsed<Literal> {
        match self.some()? {
            Token::Text(text, quote) => {
                let bytes = self.lexer.unescape(text, quote)?;
                let text = self.charset.decode(&bytes);
                Ok(text.map_or(Literal::Opaque, |text| Literal::Text(text.into_owned())))
            }
            _ => Err(Unlexable),
        }
    }

    /// A member of the list of ENUM or SET. Blanks at its end are not part of it.
    pub(super) fn label(&mut self) -> Parsed<Literal> {
        Ok(match self.literal()? {
            Literal::Text(text) => Literal::Text(text.trim_end_matches(' ').to_owned()),
            // Bytes in the column's character set.
            Literal::Bytes(_) | Literal::Bits(_) | Literal::Opaque => Literal::Opaque,
            Literal::Null | Literal::Number(_) | Literal::Boolean(_) | Literal::Temporal(_) => {
                return Err(Unlexable);
            }
        })
    }
}

/// Bytes of hexadecimal digits; an odd number of them is padded in front.
fn hex(digits: &[u8]) -> Parsed<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let values: Vec<u8> = digits.iter().map(digit).collect::<Option<_>>().ok_or(Unlexable)?;
    Ok(values.rchunks(2).rev().map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

/// Bytes of binary digits, padded in front.
fn bits(digits: &[u8]) -> Parsed<Vec<u8>> {
    let digit = |byte: &u8| match byte {
        b'0' => Some(0),
        b'1' => Some(1),
        _ => None,
    };
    let values: Vec<u8> = digits.iter().map(digit).collect::<Option<_>>().ok_or(Unlexable)?;
    Ok(values.rchunks(8).rev().map(|group| group.iter().fold(0, |byte, digit| byte << 1 | digit)).collect())
}
