//! Column definitions (MySQL manual, "CREATE TABLE Statement"; server source `sql/sql_yacc.yy`,
//! `field_def`, `column_attribute`).

use super::super::lexer::{Token, Unlexable};
use super::parser::{Parsed, Parser};
use crate::schema::ddl::{ColumnDefinition, Generated, InlineKey, Position};

/// First words of attributes.
const ATTRIBUTES: &[&str] = &[
    "NOT",
    "NULL",
    "DEFAULT",
    "ON",
    "AUTO_INCREMENT",
    "SERIAL",
    "PRIMARY",
    "KEY",
    "UNIQUE",
    "COMMENT",
    "COLLATE",
    "COLUMN_FORMAT",
    "STORAGE",
    "SRID",
    "CONSTRAINT",
    "CHECK",
    "ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "VISIBLE",
    "INVISIBLE",
    "GENERATED",
    "AS",
    "REFERENCES",
];

impl Parser<'_> {
    /// What follows a column's name, up to its position.
    pub(super) fn column_definition(&mut self, name: String) -> Parsed<ColumnDefinition> {
        let (data_type, serial) = self.data_type()?;
        let mut column = ColumnDefinition {
            name,
            data_type,
            nullable: serial.then_some(false),
            default: None,
            on_update_now: None,
            auto_increment: serial,
            key: InlineKey { primary: false, unique: serial },
            comment: None,
            generated: None,
            visible: true,
            references: None,
            checks: Vec::new(),
        };
        while self.column_attribute(&mut column)? {}
        Ok(column)
    }

    /// One attribute; `false` if none follows.
    fn column_attribute(&mut self, column: &mut ColumnDefinition) -> Parsed<bool> {
        let Some(attribute) = self.accept_any(ATTRIBUTES)? else { return Ok(false) };
        match attribute {
            "NOT" if self.accept("SECONDARY")? => {}
            "NOT" => {
                self.expect("NULL")?;
                column.nullable = Some(false);
            }
            "NULL" => column.nullable = Some(true),
            "DEFAULT" => column.default = Some(self.default_value()?),
            "ON" => {
                self.expect("UPDATE")?;
                column.on_update_now = Some(self.now()?.ok_or(Unlexable)?);
            }
            "AUTO_INCREMENT" => column.auto_increment = true,
            "SERIAL" => {
                self.expect("DEFAULT")?;
                self.expect("VALUE")?;
                (column.nullable, column.auto_increment, column.key.unique) = (Some(false), true, true);
            }
            "PRIMARY" => {
                self.expect("KEY")?;
                column.key.primary = true;
            }
            "KEY" => column.key.primary = true,
            "UNIQUE" => {
                self.accept("KEY")?;
                column.key.unique = true;
            }
            "COMMENT" => column.comment = Some(self.string()?),
            "COLLATE" => column.data_type.charset.collation = Some(self.charset_name()?),
            "COLUMN_FORMAT" | "STORAGE" => drop(self.some()?),
            "SRID" => column.data_type.srid = Some(self.integer()?),
            "CONSTRAINT" | "CHECK" => self.inline_check(attribute, column)?,
            "ENGINE_ATTRIBUTE" | "SECONDARY_ENGINE_ATTRIBUTE" => {
                self.accept_symbol(b'=')?;
                self.string()?;
            }
            "VISIBLE" => column.visible = true,
            "INVISIBLE" => column.visible = false,
            "GENERATED" => {
                self.expect("ALWAYS")?;
                self.expect("AS")?;
                self.generated(column)?;
            }
            "AS" => self.generated(column)?,
            "REFERENCES" => {
                column.references = Some(self.references(None, vec![column.name.clone()])?);
            }
            _ => return Err(Unlexable),
        }
        Ok(true)
    }

    /// `(expression) [VIRTUAL | STORED]`.
    fn generated(&mut self, column: &mut ColumnDefinition) -> Parsed<()> {
        self.expect_symbol(b'(')?;
        self.skip_group()?;
        let stored = self.accept_any(&["STORED", "VIRTUAL"])? == Some("STORED");
        column.generated = Some(if stored { Generated::Stored } else { Generated::Virtual });
        Ok(())
    }

    /// `[CONSTRAINT [name]] CHECK (expression) [[NOT] ENFORCED]`.
    fn inline_check(&mut self, attribute: &str, column: &mut ColumnDefinition) -> Parsed<()> {
        let mut name = None;
        if attribute == "CONSTRAINT" {
            name = self.constraint_name()?;
            self.expect("CHECK")?;
        }
        let enforced = self.check()?;
        column.checks.push((name, enforced));
        Ok(())
    }

    /// The optional name behind CONSTRAINT.
    pub(super) fn constraint_name(&mut self) -> Parsed<Option<String>> {
        let unnamed = self.peek()?.is_some_and(|token| {
            ["CHECK", "PRIMARY", "UNIQUE", "FOREIGN"].iter().any(|keyword| token.is(keyword))
        });
        if unnamed { Ok(None) } else { self.identifier().map(Some) }
    }

    /// What follows CHECK; whether it is enforced.
    pub(super) fn check(&mut self) -> Parsed<bool> {
        self.expect_symbol(b'(')?;
        self.skip_group()?;
        self.enforcement().map(|enforced| enforced.unwrap_or(true))
    }

    /// `[NOT] ENFORCED`, if it follows.
    pub(super) fn enforcement(&mut self) -> Parsed<Option<bool>> {
        if self.accept_all(&["NOT", "ENFORCED"])? {
            return Ok(Some(false));
        }
        Ok(self.accept("ENFORCED")?.then_some(true))
    }

    /// FIRST, AFTER a column, or nothing.
    pub(super) fn position(&mut self) -> Parsed<Position> {
        if self.accept("FIRST")? {
            return Ok(Position::First);
        }
        if self.accept("AFTER")? {
            return self.identifier().map(Position::After);
        }
        Ok(Position::Unstated)
    }

    /// Whether the next token is a symbol that ends an operation, or nothing comes.
    pub(super) fn at_boundary(&self) -> Parsed<bool> {
        Ok(matches!(self.peek()?, None | Some(Token::Symbol(b',' | b';' | b')'))))
    }
}
