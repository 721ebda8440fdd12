//! The parser's hold on the tokens: looking ahead, accepting, names.

use super::super::charset::ClientCharset;
use super::super::lexer::{Lexer, Token, Unlexable};
use crate::schema::TableName;

pub(super) type Parsed<T> = Result<T, Unlexable>;

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) charset: ClientCharset,
    /// Collation id of `collation_connection`.
    pub(super) connection_collation: Option<u16>,
    pub(super) sql_mode: Option<u64>,
    pub(super) default_database: &'a [u8],
}

impl<'a> Parser<'a> {
    pub(super) fn next(&mut self) -> Parsed<Option<Token<'a>>> {
        self.lexer.next()
    }

    /// The next token, which must be there.
    pub(super) fn some(&mut self) -> Parsed<Token<'a>> {
        self.next()?.ok_or(Unlexable)
    }

    pub(super) fn peek(&self) -> Parsed<Option<Token<'a>>> {
        self.lexer.clone().next()
    }

    /// Consumes the next token if it is this keyword.
    pub(super) fn accept(&mut self, keyword: &str) -> Parsed<bool> {
        let mut ahead = self.lexer.clone();
        let found = ahead.next()?.is_some_and(|token| token.is(keyword));
        if found {
            self.lexer = ahead;
        }
        Ok(found)
    }

    pub(super) fn accept_symbol(&mut self, symbol: u8) -> Parsed<bool> {
        let mut ahead = self.lexer.clone();
        let found = ahead.next()? == Some(Token::Symbol(symbol));
        if found {
            self.lexer = ahead;
        }
        Ok(found)
    }

    pub(super) fn expect(&mut self, keyword: &str) -> Parsed<()> {
        if self.accept(keyword)? { Ok(()) } else { Err(Unlexable) }
    }

    /// Nothing follows but a separator.
    pub(super) fn end(&mut self) -> Parsed<()> {
        while self.accept_symbol(b';')? {}
        if self.next()?.is_none() { Ok(()) } else { Err(Unlexable) }
    }

    /// Consumes these keywords if all of them come next.
    pub(super) fn accept_all(&mut self, keywords: &[&str]) -> Parsed<bool> {
        let start = self.lexer.clone();
        for keyword in keywords {
            if !self.accept(keyword)? {
                self.lexer = start;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Consumes the next token if it is one of these keywords, and says which.
    pub(super) fn accept_any(&mut self, keywords: &[&'static str]) -> Parsed<Option<&'static str>> {
        let mut ahead = self.lexer.clone();
        let Some(token) = ahead.next()? else { return Ok(None) };
        let found = keywords.iter().find(|keyword| token.is(keyword)).copied();
        if found.is_some() {
            self.lexer = ahead;
        }
        Ok(found)
    }

    pub(super) fn expect_symbol(&mut self, symbol: u8) -> Parsed<()> {
        if self.accept_symbol(symbol)? { Ok(()) } else { Err(Unlexable) }
    }

    /// What parentheses hold, passed over; the opening one has been consumed.
    pub(super) fn skip_group(&mut self) -> Parsed<()> {
        let mut depth = 1usize;
        while depth > 0 {
            match self.some()? {
                Token::Symbol(b'(') => depth += 1,
                Token::Symbol(b')') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// An unsigned integer.
    pub(super) fn integer(&mut self) -> Parsed<u64> {
        match self.some()? {
            Token::Word(word) => {
                str::from_utf8(word).ok().and_then(|word| word.parse().ok()).ok_or(Unlexable)
            }
            _ => Err(Unlexable),
        }
    }

    /// `(name, …)`; the opening parenthesis has been consumed.
    pub(super) fn name_list(&mut self) -> Parsed<Vec<String>> {
        let mut names = vec![self.identifier()?];
        while self.accept_symbol(b',')? {
            names.push(self.identifier()?);
        }
        self.expect_symbol(b')')?;
        Ok(names)
    }

    /// `[database .] table`.
    pub(super) fn table(&mut self) -> Parsed<TableName> {
        let name = self.identifier()?;
        if self.accept_symbol(b'.')? {
            Ok(TableName { database: name, table: self.identifier()? })
        } else {
            Ok(TableName { database: self.default_database()?, table: name })
        }
    }

    pub(super) fn identifier(&mut self) -> Parsed<String> {
        let (name, quote) = match self.some()? {
            Token::Word(word) => (word, None),
            Token::Quoted(name, quote) => (name, Some(char::from(quote))),
            Token::Text(..) | Token::Symbol(_) => return Err(Unlexable),
        };
        let name = self.charset.decode(name).ok_or(Unlexable)?;
        Ok(match quote {
            Some(quote) => name.replace(&format!("{quote}{quote}"), &quote.to_string()),
            None => name.into_owned(),
        })
    }

    pub(super) fn default_database(&self) -> Parsed<String> {
        match str::from_utf8(self.default_database) {
            Ok(database) if !database.is_empty() => Ok(database.to_owned()),
            _ => Err(Unlexable),
        }
    }
}
