//! Indexes, foreign keys and checks (MySQL manual, "CREATE TABLE Statement", "CREATE INDEX
//! Statement", "FOREIGN KEY Constraints").

use super::super::lexer::{Token, Unlexable};
use super::parser::{Parsed, Parser};
use crate::schema::ddl::{
    AlterOperation, ForeignKeyDefinition, IndexDefinition, IndexKind, KeyPart, ReferentialAction,
};

impl Parser<'_> {
    /// An index, foreign key or check in a list of table elements; `None` if a column comes next.
    pub(super) fn table_constraint(&mut self) -> Parsed<Option<AlterOperation>> {
        let mut symbol = None;
        let constraint = self.accept("CONSTRAINT")?;
        if constraint {
            symbol = self.constraint_name()?;
        }
        const WORDS: &[&str] =
            &["PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL", "INDEX", "KEY", "FOREIGN", "CHECK"];
        let Some(word) = self.accept_any(WORDS)? else {
            return if constraint { Err(Unlexable) } else { Ok(None) };
        };
        let kind = match word {
            "FOREIGN" => return self.foreign_key(symbol).map(Some),
            "CHECK" => {
                let enforced = self.check()?;
                return Ok(Some(AlterOperation::AddCheck { name: symbol, enforced }));
            }
            "PRIMARY" => {
                self.expect("KEY")?;
                IndexKind::Primary
            }
            "UNIQUE" => IndexKind::Unique,
            "FULLTEXT" => IndexKind::Fulltext,
            "SPATIAL" => IndexKind::Spatial,
            _ => IndexKind::Plain,
        };
        if matches!(word, "UNIQUE" | "FULLTEXT" | "SPATIAL") {
            self.accept_any(&["INDEX", "KEY"])?;
        }
        let mut name = self.optional_index_name()?;
        self.index_type(name.is_some())?;
        name = name.or(symbol).filter(|_| kind != IndexKind::Primary);
        self.index_body(kind, name).map(|index| Some(AlterOperation::AddIndex(index)))
    }

    fn optional_index_name(&mut self) -> Parsed<Option<String>> {
        let none = self.peek()?.is_some_and(|token| token == Token::Symbol(b'(') || token.is("USING"));
        if none { Ok(None) } else { self.identifier().map(Some) }
    }

    /// `USING type` or, behind a name, `TYPE type`.
    pub(super) fn index_type(&mut self, named: bool) -> Parsed<()> {
        if self.accept("USING")? || (named && self.accept("TYPE")?) {
            self.some()?;
        }
        Ok(())
    }

    /// Parts and options.
    pub(super) fn index_body(&mut self, kind: IndexKind, name: Option<String>) -> Parsed<IndexDefinition> {
        self.expect_symbol(b'(')?;
        let mut parts = vec![self.key_part()?];
        while self.accept_symbol(b',')? {
            parts.push(self.key_part()?);
        }
        self.expect_symbol(b')')?;
        let mut index = IndexDefinition { kind, name, parts, visible: true };
        while self.index_option(&mut index)? {}
        Ok(index)
    }

    fn key_part(&mut self) -> Parsed<KeyPart> {
        if self.accept_symbol(b'(')? {
            self.skip_group()?;
            self.accept_any(&["ASC", "DESC"])?;
            return Ok(KeyPart::Expression);
        }
        let name = self.identifier()?;
        let mut prefix = None;
        if self.accept_symbol(b'(')? {
            prefix = Some(self.integer()?);
            self.expect_symbol(b')')?;
        }
        let descending = self.accept_any(&["ASC", "DESC"])? == Some("DESC");
        Ok(KeyPart::Column { name, prefix, descending })
    }

    fn index_option(&mut self, index: &mut IndexDefinition) -> Parsed<bool> {
        const OPTIONS: &[&str] = &[
            "KEY_BLOCK_SIZE",
            "USING",
            "TYPE",
            "COMMENT",
            "VISIBLE",
            "INVISIBLE",
            "ENGINE_ATTRIBUTE",
            "SECONDARY_ENGINE_ATTRIBUTE",
        ];
        // WITH VALIDATION is an operation of its own.
        if self.accept_all(&["WITH", "PARSER"])? {
            self.identifier()?;
            return Ok(true);
        }
        let Some(option) = self.accept_any(OPTIONS)? else { return Ok(false) };
        match option {
            "VISIBLE" => index.visible = true,
            "INVISIBLE" => index.visible = false,
            _ => {
                self.accept_symbol(b'=')?;
                self.some()?;
            }
        }
        Ok(true)
    }

    /// What follows FOREIGN. A name behind KEY is not the constraint's.
    fn foreign_key(&mut self, symbol: Option<String>) -> Parsed<AlterOperation> {
        self.expect("KEY")?;
        self.optional_index_name()?;
        self.expect_symbol(b'(')?;
        let columns = self.name_list()?;
        self.expect("REFERENCES")?;
        self.references(symbol, columns).map(AlterOperation::AddForeignKey)
    }

    /// What follows REFERENCES.
    pub(super) fn references(
        &mut self,
        name: Option<String>,
        columns: Vec<String>,
    ) -> Parsed<ForeignKeyDefinition> {
        let referenced = self.table()?;
        let mut key = ForeignKeyDefinition {
            name,
            columns,
            referenced,
            referenced_columns: Vec::new(),
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::NoAction,
        };
        if self.accept_symbol(b'(')? {
            key.referenced_columns = self.name_list()?;
        }
        if self.accept("MATCH")? {
            self.accept_any(&["FULL", "PARTIAL", "SIMPLE"])?.ok_or(Unlexable)?;
        }
        loop {
            if self.accept_all(&["ON", "DELETE"])? {
                key.on_delete = self.referential_action()?;
            } else if self.accept_all(&["ON", "UPDATE"])? {
                key.on_update = self.referential_action()?;
            } else {
                return Ok(key);
            }
        }
    }

    fn referential_action(&mut self) -> Parsed<ReferentialAction> {
        Ok(match self.accept_any(&["RESTRICT", "CASCADE", "NO", "SET"])?.ok_or(Unlexable)? {
            "RESTRICT" => ReferentialAction::Restrict,
            "CASCADE" => ReferentialAction::Cascade,
            "NO" => {
                self.expect("ACTION")?;
                ReferentialAction::NoAction
            }
            _ if self.accept("NULL")? => ReferentialAction::SetNull,
            _ => {
                self.expect("DEFAULT")?;
                ReferentialAction::SetDefault
            }
        })
    }
}
