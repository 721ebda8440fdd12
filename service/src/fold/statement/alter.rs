//! ALTER TABLE, CREATE INDEX and DROP INDEX (MySQL manual, "ALTER TABLE Statement"; server source
//! `sql/sql_yacc.yy`, `alter_table_stmt`).
//!
//! Operations that are not understood stay in the list as unknown. What renames or exchanges
//! tables is understood or the statement is refused, because it changes other tables.

use super::super::lexer::{Token, Unlexable};
use super::parser::{Parsed, Parser};
use super::{Ddl, DdlKind, Statement};
use crate::schema::TableName;
use crate::schema::ddl::{
    AlterOperation, CharsetClause, ColumnAction, Content, IndexKind, PartitionOperation, Position,
};

/// Operations of one statement, with the tables that it names.
struct Operations {
    list: Vec<AlterOperation>,
    tables: Vec<TableName>,
}

impl Parser<'_> {
    /// What follows ALTER TABLE.
    pub(super) fn alter_table(&mut self) -> Parsed<Statement> {
        let mut operations = Operations { list: Vec::new(), tables: vec![self.table()?] };
        while !self.at_end()? {
            self.operation_or_unknown(&mut operations)?;
            if !self.accept_symbol(b',')? && !self.at_end()? && !self.at_partitioning()? {
                return Err(Unlexable);
            }
        }
        self.end()?;
        let Operations { list, tables } = operations;
        let content = Content::Alter(list);
        Ok(Statement::Ddl(Ddl { kind: DdlKind::AlterTable, tables, databases: Vec::new(), content }))
    }

    fn at_end(&self) -> Parsed<bool> {
        Ok(matches!(self.peek()?, None | Some(Token::Symbol(b';'))))
    }

    /// The one clause that no comma sets apart.
    fn at_partitioning(&self) -> Parsed<bool> {
        Ok(self.peek()?.is_some_and(|token| token.is("PARTITION") || token.is("REMOVE")))
    }

    /// One operation; if it can't be read to its end, it is an unknown one.
    fn operation_or_unknown(&mut self, operations: &mut Operations) -> Parsed<()> {
        let (start, parsed) = (self.lexer.clone(), operations.list.len());
        let result = self.operation(operations);
        let complete = result.is_ok() && (self.at_boundary()? || self.at_partitioning()?);
        if complete {
            return Ok(());
        }
        operations.list.truncate(parsed);
        self.lexer = start;
        let label = self.skip_unknown()?;
        operations.list.push(AlterOperation::Unknown { label });
        Ok(())
    }

    /// Passes over an operation; its first word, if it is one of ours.
    fn skip_unknown(&mut self) -> Parsed<&'static str> {
        let label = self.accept_any(LABELS)?.unwrap_or("OTHER");
        if matches!(label, "RENAME" | "EXCHANGE") {
            return Err(Unlexable);
        }
        while !self.at_boundary()? {
            match self.some()? {
                Token::Symbol(b'(') => self.skip_group()?,
                // A reserved word, with which an operation would begin.
                token if token.is("RENAME") => return Err(Unlexable),
                _ => {}
            }
        }
        // An unmatched parenthesis.
        if self.peek()? == Some(Token::Symbol(b')')) { Err(Unlexable) } else { Ok(label) }
    }

    fn operation(&mut self, operations: &mut Operations) -> Parsed<()> {
        let Operations { list, tables } = operations;
        if let Some(operation) = self.partition_operation(tables)? {
            list.push(operation);
            return Ok(());
        }
        let start = self.lexer.clone();
        let operation = match self.accept_any(LABELS)?.ok_or(Unlexable)? {
            "ADD" => return self.add(list),
            "DROP" => self.drop_operation()?,
            "CHANGE" => return self.change(true, list),
            "MODIFY" => return self.change(false, list),
            "ALTER" => self.alter_operation()?,
            "RENAME" => self.rename_operation(tables)?,
            "CONVERT" => self.convert()?,
            "ORDER" => self.order_by()?,
            "FORCE" => AlterOperation::Force,
            "ALGORITHM" => self.execution("ALGORITHM")?,
            "LOCK" => self.execution("LOCK")?,
            "WITH" => self.validation(true)?,
            "WITHOUT" => self.validation(false)?,
            "ENABLE" => self.keys(AlterOperation::EnableKeys)?,
            "DISABLE" => self.keys(AlterOperation::DisableKeys)?,
            "DISCARD" => self.tablespace(AlterOperation::DiscardTablespace)?,
            "IMPORT" => self.tablespace(AlterOperation::ImportTablespace)?,
            _ => {
                self.lexer = start;
                return self.table_options(list);
            }
        };
        list.push(operation);
        Ok(())
    }

    fn add(&mut self, list: &mut Vec<AlterOperation>) -> Parsed<()> {
        if let Some(operation) = self.table_constraint()? {
            list.push(operation);
            return Ok(());
        }
        self.accept("COLUMN")?;
        if !self.accept_symbol(b'(')? {
            return self.add_column(list, true);
        }
        loop {
            match self.table_constraint()? {
                Some(operation) => list.push(operation),
                None => self.add_column(list, false)?,
            }
            if !self.accept_symbol(b',')? {
                return self.expect_symbol(b')');
            }
        }
    }

    fn add_column(&mut self, list: &mut Vec<AlterOperation>, positioned: bool) -> Parsed<()> {
        let name = self.identifier()?;
        let definition = self.column_definition(name)?;
        let position = if positioned { self.position()? } else { Position::Unstated };
        list.push(AlterOperation::AddColumn { definition, position });
        Ok(())
    }

    /// CHANGE, which names the column twice, or MODIFY.
    fn change(&mut self, renames: bool, list: &mut Vec<AlterOperation>) -> Parsed<()> {
        self.accept("COLUMN")?;
        let old = self.identifier()?;
        let name = if renames { self.identifier()? } else { old.clone() };
        let definition = self.column_definition(name)?;
        let position = self.position()?;
        list.push(AlterOperation::ChangeColumn { old, definition, position });
        Ok(())
    }

    fn drop_operation(&mut self) -> Parsed<AlterOperation> {
        if self.accept_all(&["PRIMARY", "KEY"])? {
            return Ok(AlterOperation::DropPrimaryKey);
        }
        if self.accept_all(&["FOREIGN", "KEY"])? {
            return Ok(AlterOperation::DropForeignKey { name: self.identifier()? });
        }
        let kind = self.accept_any(&["INDEX", "KEY", "CHECK", "CONSTRAINT", "COLUMN"])?;
        let name = self.identifier()?;
        Ok(match kind {
            Some("INDEX" | "KEY" | "CONSTRAINT") if name.eq_ignore_ascii_case("PRIMARY") => {
                AlterOperation::DropPrimaryKey
            }
            Some("INDEX" | "KEY") => AlterOperation::DropIndex { name },
            Some("CHECK") => AlterOperation::DropCheck { name },
            Some("CONSTRAINT") => AlterOperation::DropConstraint { name },
            _ => {
                self.accept_any(&["RESTRICT", "CASCADE"])?;
                AlterOperation::DropColumn { name }
            }
        })
    }

    fn alter_operation(&mut self) -> Parsed<AlterOperation> {
        let kind = self.accept_any(&["INDEX", "CHECK", "CONSTRAINT", "COLUMN"])?;
        let name = self.identifier()?;
        match kind {
            Some("INDEX") => {
                let visible = self.accept_any(&["VISIBLE", "INVISIBLE"])?.ok_or(Unlexable)? == "VISIBLE";
                return Ok(AlterOperation::AlterIndex { name, visible });
            }
            Some("CHECK" | "CONSTRAINT") => {
                let enforced = self.enforcement()?.ok_or(Unlexable)?;
                return Ok(AlterOperation::AlterCheck { name, enforced });
            }
            _ => {}
        }
        let action = if self.accept_all(&["SET", "DEFAULT"])? {
            ColumnAction::SetDefault(self.default_value()?)
        } else if self.accept_all(&["DROP", "DEFAULT"])? {
            ColumnAction::DropDefault
        } else {
            self.expect("SET")?;
            let visible = self.accept_any(&["VISIBLE", "INVISIBLE"])?.ok_or(Unlexable)? == "VISIBLE";
            ColumnAction::SetVisible(visible)
        };
        Ok(AlterOperation::AlterColumn { name, action })
    }

    fn rename_operation(&mut self, tables: &mut Vec<TableName>) -> Parsed<AlterOperation> {
        let part = self.accept_any(&["COLUMN", "INDEX", "KEY"])?;
        if let Some(part) = part {
            let from = self.identifier()?;
            self.expect("TO")?;
            let to = self.identifier()?;
            return Ok(if part == "COLUMN" {
                AlterOperation::RenameColumn { from, to }
            } else {
                AlterOperation::RenameIndex { from, to }
            });
        }
        if self.accept_any(&["TO", "AS"])?.is_none() {
            self.accept_symbol(b'=')?;
        }
        let name = self.table()?;
        tables.push(name.clone());
        Ok(AlterOperation::RenameTo(name))
    }

    fn convert(&mut self) -> Parsed<AlterOperation> {
        self.expect("TO")?;
        if !self.charset_keyword()? {
            return Err(Unlexable);
        }
        if self.accept("DEFAULT")? {
            if self.accept("COLLATE")? {
                self.accept_symbol(b'=')?;
                self.charset_name()?;
            }
            return Ok(AlterOperation::ConvertToCharset(None));
        }
        let charset = Some(self.charset_name()?);
        let mut clause = CharsetClause { charset, ..Default::default() };
        if self.accept("COLLATE")? {
            self.accept_symbol(b'=')?;
            clause.collation = Some(self.charset_name()?);
        }
        Ok(AlterOperation::ConvertToCharset(Some(clause)))
    }

    fn order_by(&mut self) -> Parsed<AlterOperation> {
        self.expect("BY")?;
        loop {
            self.identifier()?;
            self.accept_any(&["ASC", "DESC"])?;
            // Without a look at what follows, the next column can't be told from an operation.
            let start = self.lexer.clone();
            if !self.accept_symbol(b',')? {
                return Ok(AlterOperation::OrderBy);
            }
            let is_operation = self.accept_any(LABELS)?.is_some();
            self.lexer = start;
            if is_operation {
                return Ok(AlterOperation::OrderBy);
            }
            self.expect_symbol(b',')?;
        }
    }

    /// ALGORITHM or LOCK: how the change is carried out.
    fn execution(&mut self, what: &'static str) -> Parsed<AlterOperation> {
        self.accept_symbol(b'=')?;
        self.identifier()?;
        Ok(AlterOperation::Execution(what))
    }

    fn validation(&mut self, with: bool) -> Parsed<AlterOperation> {
        self.expect("VALIDATION").map(|()| AlterOperation::Validation { with })
    }

    fn keys(&mut self, operation: AlterOperation) -> Parsed<AlterOperation> {
        self.expect("KEYS").map(|()| operation)
    }

    fn tablespace(&mut self, operation: AlterOperation) -> Parsed<AlterOperation> {
        self.expect("TABLESPACE").map(|()| operation)
    }

    /// What only the end of a statement can hold: everything up to there belongs to it.
    fn partition_operation(&mut self, tables: &mut Vec<TableName>) -> Parsed<Option<AlterOperation>> {
        let found = PARTITIONS.iter().find_map(|(keywords, operation)| {
            self.accept_all(keywords).map(|found| found.then_some(*operation)).transpose()
        });
        let Some(operation) = found.transpose()? else { return Ok(None) };
        if operation == PartitionOperation::Exchange {
            self.identifier()?;
            self.expect("WITH")?;
            self.expect("TABLE")?;
            tables.push(self.table()?);
        }
        while !self.at_end()? {
            match self.some()? {
                Token::Symbol(b'(') => self.skip_group()?,
                Token::Symbol(b')') => return Err(Unlexable),
                token if token.is("RENAME") => return Err(Unlexable),
                _ => {}
            }
        }
        Ok(Some(AlterOperation::Partition(operation)))
    }

    /// `name [USING type] ON table (…) …`, after CREATE … INDEX.
    pub(super) fn create_index(&mut self, kind: IndexKind) -> Parsed<Statement> {
        let name = self.identifier()?;
        self.index_type(true)?;
        self.expect("ON")?;
        let table = self.table()?;
        let index = self.index_body(kind, Some(name))?;
        self.index_statement(DdlKind::CreateIndex, table, AlterOperation::AddIndex(index))
    }

    /// `name ON table …`, after DROP INDEX.
    pub(super) fn drop_index(&mut self) -> Parsed<Statement> {
        let name = self.identifier()?;
        self.expect("ON")?;
        let table = self.table()?;
        let operation = if name.eq_ignore_ascii_case("PRIMARY") {
            AlterOperation::DropPrimaryKey
        } else {
            AlterOperation::DropIndex { name }
        };
        self.index_statement(DdlKind::DropIndex, table, operation)
    }

    /// The rest of CREATE INDEX and DROP INDEX.
    fn index_statement(
        &mut self,
        kind: DdlKind,
        table: TableName,
        operation: AlterOperation,
    ) -> Parsed<Statement> {
        while self.accept_any(&["ALGORITHM", "LOCK"])?.is_some() {
            self.accept_symbol(b'=')?;
            self.identifier()?;
        }
        self.end()?;
        let content = Content::Alter(vec![operation]);
        Ok(Statement::Ddl(Ddl { kind, tables: vec![table], databases: Vec::new(), content }))
    }
}

/// First words of operations.
const LABELS: &[&str] = &[
    "ADD",
    "DROP",
    "CHANGE",
    "MODIFY",
    "ALTER",
    "RENAME",
    "CONVERT",
    "ORDER",
    "FORCE",
    "ALGORITHM",
    "LOCK",
    "WITH",
    "WITHOUT",
    "ENABLE",
    "DISABLE",
    "DISCARD",
    "IMPORT",
    "EXCHANGE",
    // Options of tables.
    "AUTOEXTEND_SIZE",
    "AUTO_INCREMENT",
    "AVG_ROW_LENGTH",
    "CHAR",
    "CHARACTER",
    "CHARSET",
    "CHECKSUM",
    "COLLATE",
    "COMMENT",
    "COMPRESSION",
    "CONNECTION",
    "DATA",
    "DEFAULT",
    "DELAY_KEY_WRITE",
    "ENCRYPTION",
    "ENGINE",
    "ENGINE_ATTRIBUTE",
    "INDEX",
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
    "UNION",
];

/// First words of operations on partitions, and what they do.
const PARTITIONS: &[(&[&str], PartitionOperation)] = &[
    (&["PARTITION", "BY"], PartitionOperation::By),
    (&["REMOVE", "PARTITIONING"], PartitionOperation::Remove),
    (&["ADD", "PARTITION"], PartitionOperation::Add),
    (&["DROP", "PARTITION"], PartitionOperation::Drop),
    (&["TRUNCATE", "PARTITION"], PartitionOperation::Truncate),
    (&["EXCHANGE", "PARTITION"], PartitionOperation::Exchange),
    (&["COALESCE", "PARTITION"], PartitionOperation::Coalesce),
    (&["REORGANIZE", "PARTITION"], PartitionOperation::Reorganize),
    (&["REBUILD", "PARTITION"], PartitionOperation::Rebuild),
    (&["OPTIMIZE", "PARTITION"], PartitionOperation::Optimize),
    (&["ANALYZE", "PARTITION"], PartitionOperation::Analyze),
    (&["CHECK", "PARTITION"], PartitionOperation::Check),
    (&["REPAIR", "PARTITION"], PartitionOperation::Repair),
    (&["DISCARD", "PARTITION"], PartitionOperation::DiscardTablespace),
    (&["IMPORT", "PARTITION"], PartitionOperation::ImportTablespace),
    (&["SECONDARY_LOAD"], PartitionOperation::Secondary),
    (&["SECONDARY_UNLOAD"], PartitionOperation::Secondary),
];
