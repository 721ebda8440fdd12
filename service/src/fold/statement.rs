//! Statement text: a tolerant reader that finds the verb and the names of a QUERY event.
//!
//! It reads what it must and nothing more: the kind of the statement and every table or database
//! whose rows or definition the statement changes. What it cannot read it refuses. No text of a
//! statement leaves this module.

use self::parser::{Parsed, Parser};
use super::charset::ClientCharset;
use super::lexer::{Lexer, Token, Unlexable};
use crate::schema::TableName;
use crate::schema::ddl::{AlterOperation, Content, CreateTable, IndexKind};

mod alter;
mod column;
mod data_type;
mod index;
mod literal;
mod options;
mod parser;
#[cfg(test)]
mod tests;

/// A statement as the fold's grammar sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    Begin,
    Commit,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    Xa(XaVerb),
    /// INSERT, UPDATE, DELETE, …, and CREATE TABLE … SELECT as one statement: rows changed as text.
    Dml,
    /// CREATE TABLE … START TRANSACTION: the head of a CREATE TABLE … SELECT, whose rows follow.
    CreateTableWithRows(Ddl),
    /// CREATE or DROP of temporary tables: no base table is concerned.
    TemporaryTable(Temporary),
    Ddl(Ddl),
}

/// What a session does to its own temporary tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Temporary {
    Create(TableName),
    Drop(Vec<TableName>),
}

/// The XA statements that are logged as text; PREPARE has an event type of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XaVerb {
    Start,
    End,
    Commit,
    Rollback,
}

/// What a self-committing statement does to the objects it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ddl {
    pub kind: DdlKind,
    /// Every table named as an object of the statement, resolved with the event's default database.
    pub tables: Vec<TableName>,
    /// Databases named as objects (CREATE/ALTER/DROP DATABASE).
    pub databases: Vec<String>,
    /// What the statement says beyond that.
    pub content: Content,
}

impl Ddl {
    /// Bytes that the statement takes beside the literals of its text.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.tables.iter().map(|name| name.database.len() + name.table.len());
        let names = tables.chain(self.databases.iter().map(String::len)).sum::<usize>();
        let operations = match &self.content {
            Content::Alter(operations) => operations.len(),
            Content::Rename(renames) => renames.len(),
            _ => 0,
        };
        names + self.tables.len() * size_of::<TableName>() + operations * size_of::<AlterOperation>()
    }

    const fn administrative() -> Self {
        Self::on_tables(DdlKind::Administrative, Vec::new())
    }

    const fn on_tables(kind: DdlKind, tables: Vec<TableName>) -> Self {
        Self { kind, tables, databases: Vec::new(), content: Content::Names }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdlKind {
    CreateTable,
    AlterTable,
    DropTable,
    RenameTable,
    TruncateTable,
    CreateIndex,
    DropIndex,
    CreateDatabase,
    AlterDatabase,
    DropDatabase,
    /// ANALYZE, OPTIMIZE, REPAIR, FLUSH, GRANT, CREATE USER, views, routines, triggers, events, …: no table's
    /// rows or columns change.
    Administrative,
}

impl DdlKind {
    /// A lower-case name for logs, metrics and `tidegate.schema_change`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTable => "create_table",
            Self::AlterTable => "alter_table",
            Self::DropTable => "drop_table",
            Self::RenameTable => "rename_table",
            Self::TruncateTable => "truncate_table",
            Self::CreateIndex => "create_index",
            Self::DropIndex => "drop_index",
            Self::CreateDatabase => "create_database",
            Self::AlterDatabase => "alter_database",
            Self::DropDatabase => "drop_database",
            Self::Administrative => "administrative",
        }
    }
}

/// What a QUERY event says besides its text.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The session's default database in UTF-8; empty if there is none.
    pub default_database: &'a [u8],
    /// `sql_mode` of the session.
    pub sql_mode: Option<u64>,
    /// Collation id of `character_set_client`.
    pub client_collation: Option<u16>,
    /// Collation id of `collation_connection`.
    pub connection_collation: Option<u16>,
}

/// A statement that could not be read. `verb` is a keyword of ours, never text of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unparsed {
    pub verb: &'static str,
}

/// Reads a statement's kind and the objects it changes.
pub fn classify(text: &[u8], context: &Context<'_>) -> Result<Statement, Unparsed> {
    // The two that frame nearly every transaction, spelled as the server spells them.
    match text {
        b"BEGIN" => return Ok(Statement::Begin),
        b"COMMIT" => return Ok(Statement::Commit),
        _ => {}
    }
    let charset = context.client_collation.map_or(ClientCharset::Unknown, ClientCharset::of_collation);
    let unparsed = |verb| move |Unlexable| Unparsed { verb };
    let lexer = Lexer::new(text, context.sql_mode, charset).map_err(unparsed("unreadable"))?;
    let mut parser = Parser {
        lexer,
        charset,
        connection_collation: context.connection_collation,
        sql_mode: context.sql_mode,
        default_database: context.default_database,
    };
    let first = parser.next().map_err(unparsed("unreadable"))?;
    let verb = first.map_or("empty", verb_name);
    parser.statement(first).map_err(unparsed(verb))
}

/// Whether the text of a CREATE TABLE or ALTER TABLE holds ON DELETE or ON UPDATE with an action
/// that changes rows. A text that cannot be read to its end is taken to hold one.
pub(super) fn has_referential_action(text: &[u8], context: &Context<'_>) -> bool {
    let charset = context.client_collation.map_or(ClientCharset::Unknown, ClientCharset::of_collation);
    let Ok(mut lexer) = Lexer::new(text, context.sql_mode, charset) else { return true };
    let mut last: [Option<Token<'_>>; 3] = [None; 3];
    loop {
        let Ok(token) = lexer.next() else { return true };
        let Some(token) = token else { return false };
        let was = |nth: usize, words: &[&str]| {
            last.get(nth).copied().flatten().is_some_and(|token| words.iter().any(|word| token.is(word)))
        };
        const EVENTS: &[&str] = &["DELETE", "UPDATE"];
        let cascades = token.is("CASCADE") && was(2, EVENTS) && was(1, &["ON"]);
        let sets = (token.is("NULL") || token.is("DEFAULT"))
            && was(2, &["SET"])
            && was(1, EVENTS)
            && was(0, &["ON"]);
        if cascades || sets {
            return true;
        }
        last = [last[1], last[2], Some(token)];
    }
}

/// Verbs that a halt may name.
const VERBS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "BEGIN",
    "CALL",
    "CHECK",
    "COMMIT",
    "CREATE",
    "DELETE",
    "DO",
    "DROP",
    "FLUSH",
    "GRANT",
    "IMPORT",
    "INSERT",
    "LOAD",
    "OPTIMIZE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "REVOKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SELECT",
    "SET",
    "TABLE",
    "TRUNCATE",
    "UPDATE",
    "VALUES",
    "WITH",
    "XA",
];

fn verb_name(token: Token<'_>) -> &'static str {
    VERBS.iter().find(|verb| token.is(verb)).copied().unwrap_or("unknown")
}

impl<'a> Parser<'a> {
    fn statement(&mut self, first: Option<Token<'a>>) -> Parsed<Statement> {
        let first = first.ok_or(Unlexable)?;
        let Token::Word(_) = first else {
            // A parenthesized SELECT.
            return if first == Token::Symbol(b'(') { Ok(Statement::Dml) } else { Err(Unlexable) };
        };
        match verb_name(first) {
            "BEGIN" => self.end().map(|()| Statement::Begin),
            "COMMIT" => self.end().map(|()| Statement::Commit),
            "ROLLBACK" => self.rollback(),
            "SAVEPOINT" => {
                self.identifier()?;
                self.end().map(|()| Statement::Savepoint)
            }
            "XA" => self.xa(),
            "CREATE" => self.create(),
            "ALTER" => self.alter(),
            "DROP" => self.drop(),
            "RENAME" => self.rename(),
            "TRUNCATE" => self.truncate(),
            "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "CALL" | "DO" | "SELECT" | "WITH"
            | "TABLE" | "VALUES" => Ok(Statement::Dml),
            "ANALYZE" | "OPTIMIZE" | "REPAIR" | "CHECK" | "FLUSH" | "GRANT" | "REVOKE" => {
                Ok(Statement::Ddl(Ddl::administrative()))
            }
            "SET" => self.set(),
            _ => Err(Unlexable),
        }
    }

    fn rollback(&mut self) -> Parsed<Statement> {
        if self.accept("TO")? {
            return Ok(Statement::RollbackToSavepoint);
        }
        self.end().map(|()| Statement::Rollback)
    }

    fn xa(&mut self) -> Parsed<Statement> {
        let verb = self.some()?;
        for (keyword, verb_kind) in [
            ("START", XaVerb::Start),
            ("BEGIN", XaVerb::Start),
            ("END", XaVerb::End),
            ("COMMIT", XaVerb::Commit),
            ("ROLLBACK", XaVerb::Rollback),
        ] {
            if verb.is(keyword) {
                return Ok(Statement::Xa(verb_kind));
            }
        }
        Err(Unlexable)
    }

    /// Of the SET statements only those about accounts are logged as statements of their own.
    fn set(&mut self) -> Parsed<Statement> {
        let next = self.some()?;
        if next.is("PASSWORD") || (next.is("DEFAULT") && self.accept("ROLE")?) {
            Ok(Statement::Ddl(Ddl::administrative()))
        } else {
            Err(Unlexable)
        }
    }

    fn create(&mut self) -> Parsed<Statement> {
        let (mut temporary, mut index) = (false, IndexKind::Plain);
        loop {
            let word = self.some()?;
            if word.is("TABLE") {
                return self.create_table(temporary);
            } else if word.is("INDEX") {
                return self.create_index(index);
            } else if word.is("DATABASE") || word.is("SCHEMA") {
                return self.create_database();
            } else if is_other_object(word) {
                return Ok(Statement::Ddl(Ddl::administrative()));
            } else if word.is("TEMPORARY") {
                temporary = true;
            } else {
                index = match word {
                    word if word.is("UNIQUE") => IndexKind::Unique,
                    word if word.is("FULLTEXT") => IndexKind::Fulltext,
                    word if word.is("SPATIAL") => IndexKind::Spatial,
                    _ => index,
                };
                self.modifier(word)?;
            }
        }
    }

    /// A word between CREATE, ALTER or DROP and the kind of the object.
    fn modifier(&mut self, word: Token<'a>) -> Parsed<()> {
        if word.is("OR") {
            self.expect("REPLACE")
        } else if word.is("ALGORITHM") {
            self.accept_symbol(b'=')?;
            self.some().map(|_| ())
        } else if word.is("SQL") {
            self.expect("SECURITY")?;
            self.some().map(|_| ())
        } else if word.is("DEFINER") {
            self.accept_symbol(b'=')?;
            self.account()
        } else if ["UNIQUE", "FULLTEXT", "SPATIAL", "AGGREGATE", "UNDO", "JSON", "RELATIONAL", "DUALITY"]
            .iter()
            .any(|modifier| word.is(modifier))
        {
            Ok(())
        } else {
            Err(Unlexable)
        }
    }

    /// `user@host`, `user` or `CURRENT_USER[()]`.
    fn account(&mut self) -> Parsed<()> {
        self.some()?;
        if self.accept_symbol(b'@')? {
            self.some()?;
        } else if self.accept_symbol(b'(')? && !self.accept_symbol(b')')? {
            return Err(Unlexable);
        }
        Ok(())
    }

    /// A query in it makes it DML: its rows, and what its functions write, are not logged.
    fn create_table(&mut self, temporary: bool) -> Parsed<Statement> {
        let if_not_exists = self.accept("IF")?;
        if if_not_exists {
            self.expect("NOT")?;
            self.expect("EXISTS")?;
        }
        let created = self.table()?;
        let mut ddl = Ddl::on_tables(DdlKind::CreateTable, vec![created.clone()]);
        let like = self.like()?;
        let (mut previous, mut starts_transaction) = (None, false);
        while let Some(token) = self.next()? {
            // SELECT and TABLE are reserved words: unquoted they are no names, here they are queries.
            let after_dot = previous == Some(Token::Symbol(b'.'));
            let after = |keyword| previous.is_some_and(|token: Token<'_>| token.is(keyword));
            if !after_dot && (token.is("SELECT") || token.is("TABLE") || (token.is("ROW") && after("VALUES")))
            {
                return Ok(Statement::Dml);
            }
            if token == Token::Symbol(b';') {
                self.end()?;
                break;
            }
            starts_transaction |= token.is("TRANSACTION") && after("START");
            previous = Some(token);
        }
        let with_rows = starts_transaction;
        ddl.content = Content::CreateTable(CreateTable { if_not_exists, like, with_rows });
        Ok(match (temporary, starts_transaction) {
            (true, _) => Statement::TemporaryTable(Temporary::Create(created)),
            (false, true) => Statement::CreateTableWithRows(ddl),
            (false, false) => Statement::Ddl(ddl),
        })
    }

    /// `LIKE table` or `(LIKE table)`, if it follows the name.
    fn like(&mut self) -> Parsed<Option<TableName>> {
        let start = self.lexer.clone();
        let parenthesized = self.accept_symbol(b'(')?;
        if !self.accept("LIKE")? {
            self.lexer = start;
            return Ok(None);
        }
        let source = self.table()?;
        if parenthesized {
            self.expect_symbol(b')')?;
        }
        Ok(Some(source))
    }

    fn create_database(&mut self) -> Parsed<Statement> {
        let if_not_exists = self.accept("IF")?;
        if if_not_exists {
            self.expect("NOT")?;
            self.expect("EXISTS")?;
        }
        let name = self.identifier()?;
        let content = Content::CreateDatabase { if_not_exists, charset: self.database_charset()? };
        Ok(on_database(DdlKind::CreateDatabase, name, content))
    }

    fn drop_database(&mut self) -> Parsed<Statement> {
        let if_exists = self.accept("IF")?;
        if if_exists {
            self.expect("EXISTS")?;
        }
        let name = self.identifier()?;
        self.end()?;
        Ok(on_database(DdlKind::DropDatabase, name, Content::DropDatabase { if_exists }))
    }

    fn alter(&mut self) -> Parsed<Statement> {
        loop {
            let word = self.some()?;
            if word.is("TABLE") {
                return self.alter_table();
            } else if word.is("DATABASE") || word.is("SCHEMA") {
                return self.alter_database();
            } else if is_other_object(word) || word.is("INSTANCE") {
                return Ok(Statement::Ddl(Ddl::administrative()));
            }
            self.modifier(word)?;
        }
    }

    /// The name may be left out: then the default database is meant.
    fn alter_database(&mut self) -> Parsed<Statement> {
        let named = self.peek()?.is_some_and(|token| {
            !["CHARACTER", "CHARSET", "CHAR", "COLLATE", "DEFAULT", "ENCRYPTION", "READ"]
                .iter()
                .any(|option| token.is(option))
        });
        let database = if named { self.identifier()? } else { self.default_database()? };
        let content = Content::AlterDatabase { charset: self.database_charset()? };
        Ok(on_database(DdlKind::AlterDatabase, database, content))
    }

    fn drop(&mut self) -> Parsed<Statement> {
        let mut temporary = false;
        loop {
            let word = self.some()?;
            if word.is("TABLE") || word.is("TABLES") {
                return self.drop_table(temporary);
            } else if word.is("INDEX") {
                return self.drop_index();
            } else if word.is("DATABASE") || word.is("SCHEMA") {
                return self.drop_database();
            } else if is_other_object(word) {
                return Ok(Statement::Ddl(Ddl::administrative()));
            } else if word.is("TEMPORARY") {
                temporary = true;
            } else {
                self.modifier(word)?;
            }
        }
    }

    fn drop_table(&mut self, temporary: bool) -> Parsed<Statement> {
        let if_exists = self.accept("IF")?;
        if if_exists {
            self.expect("EXISTS")?;
        }
        let mut tables = vec![self.table()?];
        while self.accept_symbol(b',')? {
            tables.push(self.table()?);
        }
        if !self.accept("RESTRICT")? {
            self.accept("CASCADE")?;
        }
        self.end()?;
        if temporary {
            return Ok(Statement::TemporaryTable(Temporary::Drop(tables)));
        }
        let content = Content::DropTable { if_exists };
        Ok(Statement::Ddl(Ddl { content, ..Ddl::on_tables(DdlKind::DropTable, tables) }))
    }

    fn rename(&mut self) -> Parsed<Statement> {
        if self.accept("USER")? {
            return Ok(Statement::Ddl(Ddl::administrative()));
        }
        if !self.accept("TABLE")? {
            self.expect("TABLES")?;
        }
        let mut renames = Vec::new();
        loop {
            let from = self.table()?;
            self.expect("TO")?;
            renames.push((from, self.table()?));
            if !self.accept_symbol(b',')? {
                break;
            }
        }
        self.end()?;
        let tables = renames.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
        let content = Content::Rename(renames);
        Ok(Statement::Ddl(Ddl { content, ..Ddl::on_tables(DdlKind::RenameTable, tables) }))
    }

    fn truncate(&mut self) -> Parsed<Statement> {
        // TABLE is reserved, so a table of that name would be quoted.
        self.accept("TABLE")?;
        let table = self.table()?;
        self.end()?;
        Ok(Statement::Ddl(Ddl::on_tables(DdlKind::TruncateTable, vec![table])))
    }
}

fn on_database(kind: DdlKind, name: String, content: Content) -> Statement {
    Statement::Ddl(Ddl { kind, tables: Vec::new(), databases: vec![name], content })
}

/// Kinds of objects whose creation, change or end leaves every base table's rows and columns alone.
fn is_other_object(word: Token<'_>) -> bool {
    [
        "EVENT",
        "FUNCTION",
        "LIBRARY",
        "LOGFILE",
        "PROCEDURE",
        "REFERENCE", // SPATIAL REFERENCE SYSTEM
        "RESOURCE",
        "ROLE",
        "SERVER",
        "TABLESPACE",
        "TRIGGER",
        "USER",
        "VIEW",
    ]
    .iter()
    .any(|object| word.is(object))
}
