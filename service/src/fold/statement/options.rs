//! Options of tables and databases (MySQL manual, "CREATE TABLE Statement", "Table Options";
//! "CREATE DATABASE Statement").

use super::super::lexer::Unlexable;
use super::parser::{Parsed, Parser};
use crate::schema::ddl::{AlterOperation, CharsetClause, Literal};

/// Options whose value does not matter for rows and columns.
const INERT: &[&str] = &[
    "AUTOEXTEND_SIZE",
    "AVG_ROW_LENGTH",
    "CHECKSUM",
    "COMPRESSION",
    "CONNECTION",
    "DELAY_KEY_WRITE",
    "ENCRYPTION",
    "ENGINE_ATTRIBUTE",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "PASSWORD",
    "ROW_FORMAT",
    "SECONDARY_ENGINE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "STORAGE",
    "TABLESPACE",
    "TABLE_CHECKSUM",
];

impl Parser<'_> {
    /// Options of a table up to a comma, at least one.
    pub(super) fn table_options(&mut self, list: &mut Vec<AlterOperation>) -> Parsed<()> {
        list.push(self.table_option()?.ok_or(Unlexable)?);
        while let Some(option) = self.table_option()? {
            list.push(option);
        }
        Ok(())
    }

    fn table_option(&mut self) -> Parsed<Option<AlterOperation>> {
        if let Some(clause) = self.charset_option()? {
            return Ok(Some(AlterOperation::DefaultCharset(clause)));
        }
        if let Some(option) = self.accept_any(INERT)? {
            self.accept_symbol(b'=')?;
            self.literal_or_word()?;
            return Ok(Some(AlterOperation::Option(option)));
        }
        for directory in ["DATA", "INDEX"] {
            if self.accept_all(&[directory, "DIRECTORY"])? {
                self.accept_symbol(b'=')?;
                self.string()?;
                return Ok(Some(AlterOperation::Option("DIRECTORY")));
            }
        }
        let Some(option) = self.accept_any(&["ENGINE", "COMMENT", "AUTO_INCREMENT"])? else {
            return Ok(None);
        };
        self.accept_symbol(b'=')?;
        Ok(Some(match option {
            "ENGINE" => AlterOperation::Engine(self.charset_word()?),
            "COMMENT" => AlterOperation::Comment(self.string()?),
            _ => AlterOperation::AutoIncrement(self.integer()?),
        }))
    }

    /// `[DEFAULT] CHARACTER SET [=] name`, `[DEFAULT] COLLATE [=] name`.
    fn charset_option(&mut self) -> Parsed<Option<CharsetClause>> {
        let start = self.lexer.clone();
        self.accept("DEFAULT")?;
        let mut clause = CharsetClause::default();
        if self.charset_keyword()? {
            self.accept_symbol(b'=')?;
            if !self.accept("DEFAULT")? {
                clause.charset = Some(self.charset_name()?);
            }
        } else if self.accept("COLLATE")? {
            self.accept_symbol(b'=')?;
            if !self.accept("DEFAULT")? {
                clause.collation = Some(self.charset_name()?);
            }
        } else {
            self.lexer = start;
            return Ok(None);
        }
        Ok(Some(clause))
    }

    /// Character set and collation among the options of a database; the others are passed over.
    pub(super) fn database_charset(&mut self) -> Parsed<CharsetClause> {
        let mut all = CharsetClause::default();
        loop {
            if let Some(clause) = self.charset_option()? {
                if clause.charset.is_some() {
                    all = clause;
                } else {
                    all.collation = clause.collation;
                }
            } else if self.accept("DEFAULT")? {
                self.expect("ENCRYPTION")?;
                self.accept_symbol(b'=')?;
                self.literal_or_word()?;
            } else if self.accept("ENCRYPTION")? || self.accept_all(&["READ", "ONLY"])? {
                self.accept_symbol(b'=')?;
                self.literal_or_word()?;
            } else {
                self.end()?;
                return Ok(all);
            }
        }
    }

    /// A word or string, as it is written.
    fn charset_word(&mut self) -> Parsed<String> {
        match self.peek()? {
            Some(super::super::lexer::Token::Text(..)) => match self.string()? {
                Literal::Text(text) => Ok(text),
                _ => Err(Unlexable),
            },
            _ => self.identifier(),
        }
    }

    fn literal_or_word(&mut self) -> Parsed<()> {
        if self.lexer.number()?.is_none() {
            self.some()?;
        }
        Ok(())
    }
}
