//! One open group: the grammar from its GTID to its terminator.

use bytes::Bytes;

use super::maps::{Mapped, StatementMaps};
use super::statement::{self, Context, Ddl, DdlKind, Statement, XaVerb};
use super::temporary::Subject;
use super::unit::{Changes, RowsChange, RowsKind};
use super::xa::{Verdict, XidDigest};
use super::{Cascades, Extent, FoldPolicy, Known, XaPolicy};
use crate::binlog::event::{
    Event, EventHeader, GtidEvent, PayloadEvent, QueryEvent, RawEvent, RowsEvent, TableMapEvent, XaPrepare,
    type_name,
};
use crate::binlog::payload::PayloadReader;
use crate::binlog::table_map::TableMap;
use crate::halt::{Halt, Reason};
use crate::schema::alter::StatementFacts;
use crate::schema::ddl::Content;
use crate::schema::filter::Filter;

/// Longest event that a payload may hold: what the server itself sends uncompressed (MySQL manual,
/// `max_allowed_packet`).
const INFLATED_EVENT_MAX: usize = 1 << 30;

/// How a group ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Its rows have happened; there may be none.
    Committed,
    SchemaChange(Box<(Ddl, StatementFacts)>),
    /// A two-phase XA transaction: its rows wait.
    Prepared(XidDigest),
    /// What was prepared before has happened, or has not.
    Resolved(XidDigest, Verdict),
}

/// Where in its grammar a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Past the GTID.
    Head,
    /// Past BEGIN.
    Transaction,
    /// Past the CREATE TABLE that opens a CREATE TABLE … SELECT.
    CreateTable,
    /// Past XA START.
    Xa,
    /// Past XA END.
    XaEnded,
}

#[derive(Debug)]
pub(super) struct Group {
    head: GtidEvent,
    extent: Extent,
    phase: Phase,
    /// Whether anything came since the phase began.
    has_items: bool,
    statement: StatementMaps,
    changes: Changes,
    /// Of the XA transaction that the group holds.
    xid: Option<XidDigest>,
    /// The replicated table of CREATE TABLE … SELECT.
    created: Option<Box<(Ddl, StatementFacts)>>,
}

impl Group {
    pub(super) fn new(head: GtidEvent, extent: Extent) -> Self {
        Self {
            head,
            extent,
            phase: Phase::Head,
            has_items: false,
            statement: StatementMaps::default(),
            changes: Changes::default(),
            xid: None,
            created: None,
        }
    }

    pub(super) const fn head(&self) -> &GtidEvent {
        &self.head
    }

    /// As new, in the memory of a group that has been finished.
    pub(super) fn renew(&mut self, head: GtidEvent, extent: Extent) {
        let statement = std::mem::take(&mut self.statement).emptied();
        *self = Self { statement, ..Self::new(head, extent) };
    }

    /// Takes the changes out of the ended group, if it is as long as its GTID event said.
    pub(super) fn finish(&mut self) -> Result<Changes, Halt> {
        if self.extent.is_complete() {
            self.changes.finish()?;
            return Ok(std::mem::take(&mut self.changes));
        }
        let detail =
            format!("the transaction ends {} bytes before its announced length", self.extent.remaining);
        Err(Halt::new(Reason::TransactionLengthMismatch, detail).at_gtid(&self.head.gtid))
    }

    /// Takes an event from the stream.
    pub(super) fn event(&mut self, raw: &RawEvent, known: &mut Known) -> Result<Option<Ended>, Halt> {
        self.extent.advance(&raw.header)?;
        match &Event::parse(raw) {
            Ok(Event::Heartbeat) => Ok(None),
            Ok(Event::TransactionPayload(payload)) => self.payload(payload, known).map(Some),
            Ok(event) => self.file_event(event, raw, known),
            Err(error) => Err(raw.malformed(error)),
        }
    }

    /// Takes an event of the group proper, from the stream or out of a payload.
    fn file_event(
        &mut self,
        event: &Event<'_>,
        raw: &RawEvent,
        known: &mut Known,
    ) -> Result<Option<Ended>, Halt> {
        match event {
            Event::TableMap(event) => self.table_map(*event, known),
            Event::Rows(event) => self.rows(event, &raw.body, known),
            Event::Query(event) => return self.query(event, raw.header, known),
            Event::Xid(_) => return self.xid().map(Some),
            Event::XaPrepare(event) => return self.xa_prepare(event, known.policy.xa).map(Some),
            Event::PartialUpdateRows(head) => {
                cascade_is_logged(head.flags, known.cascades)?;
                self.partial_update(head.table_id, head.flags)
            }
            Event::RowsQuery => self.item("Rows_query").and_then(|()| self.statement_is_over()),
            Event::ViewChange => self.item("View_change"),
            Event::Ignorable(_) => Ok(()),
            Event::Incident(_) => Err(Halt::new(Reason::Incident, "the source lost changes under this GTID")),
            Event::StatementPart(code) => Err(Halt::new(
                Reason::StatementFormatDml,
                format!("the transaction holds a {} event", type_name(*code)),
            )),
            Event::ObsoleteRows(code) | Event::Unknown(code) => Err(unknown(*code)),
            // The stream's own events have been dealt with: these come out of a payload.
            Event::FormatDescription(_)
            | Event::Rotate(_)
            | Event::PreviousGtids(_)
            | Event::Stop
            | Event::Heartbeat
            | Event::Gtid(_)
            | Event::AnonymousGtid
            | Event::TransactionPayload(_) => Err(Halt::new(
                Reason::CompressedPayloadInvalid,
                format!("a payload holds a {} event", type_name(raw.header.event_type)),
            )),
        }
        .map(|()| None)
    }

    /// A payload is the rest of its group: it ends with the terminator.
    fn payload(&mut self, event: &PayloadEvent, known: &mut Known) -> Result<Ended, Halt> {
        if self.phase != Phase::Head {
            return Err(shape("a payload inside a transaction"));
        }
        let mut ended = None;
        let mut reader = PayloadReader::new(event, INFLATED_EVENT_MAX)?;
        while let Some(inner) = reader.next_event()? {
            if ended.is_some() {
                return Err(Halt::new(
                    Reason::CompressedPayloadInvalid,
                    "events follow the payload's terminator",
                ));
            }
            let event = inner.parse()?;
            ended = self.file_event(&event, &inner, known)?;
        }
        ended.ok_or_else(|| Halt::new(Reason::CompressedPayloadInvalid, "the payload has no terminator"))
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.has_items = false;
    }

    /// Checks that the group is where rows and savepoints may come.
    fn item(&mut self, what: &'static str) -> Result<(), Halt> {
        match self.phase {
            Phase::Transaction | Phase::CreateTable | Phase::Xa => {
                self.has_items = true;
                Ok(())
            }
            Phase::Head => Err(Halt::new(
                Reason::RowsWithoutTransaction,
                format!("{what} before the transaction begins"),
            )),
            Phase::XaEnded => Err(shape("an event between XA END and the prepare")),
        }
    }

    fn table_map(&mut self, event: TableMapEvent<'_>, known: &mut Known) -> Result<(), Halt> {
        self.item("Table_map")?;
        self.statement_is_over()?;
        self.statement.announce(event.table_id, known.maps.resolve(event, &known.policy.filter)?)
    }

    fn rows(&mut self, event: &RowsEvent<'_>, body: &Bytes, known: &Known) -> Result<(), Halt> {
        self.item("a rows event")?;
        let (kind, flags) = (event.kind, event.flags);
        if kind != RowsKind::Write {
            cascade_is_logged(flags, known.cascades)?;
        }
        if let Mapped::Included(map) = self.statement.get(event.table_id)? {
            let halt = |reason, detail| Err(Halt::new(reason, detail).on_table(&map.database, &map.table));
            if event.columns != map.columns.len() {
                return halt(Reason::EventMalformed, "a rows event and its table map differ in columns");
            }
            if !event.full_images {
                return halt(Reason::PartialRowImage, "a rows event leaves columns out");
            }
            let images = body.slice_ref(event.images);
            let change = RowsChange { map: map.clone(), kind, flags, images };
            let FoldPolicy { max_buffer_bytes, spill, .. } = &known.policy;
            match &self.created {
                None => self.changes.push(change, body.len(), *max_buffer_bytes, &**spill)?,
                // They are in the table when it is read from the source.
                Some(created) if is_only_table(&created.0, &change.map) => {}
                Some(_) => return Err(shape("CREATE TABLE … SELECT changes another table")),
            }
        }
        self.statement.rows(flags & RowsEvent::STMT_END != 0);
        Ok(())
    }

    /// Of no consequence where the table is filtered; else the new values cannot be computed.
    fn partial_update(&mut self, table_id: u64, flags: u16) -> Result<(), Halt> {
        self.item("a rows event")?;
        if let Mapped::Included(map) = self.statement.get(table_id)? {
            let halt = Halt::new(Reason::PartialJson, "an update holds partial JSON values");
            return Err(halt.on_table(&map.database, &map.table));
        }
        self.statement.rows(flags & RowsEvent::STMT_END != 0);
        Ok(())
    }

    fn xid(&mut self) -> Result<Ended, Halt> {
        match self.phase {
            Phase::Transaction | Phase::CreateTable => self.commit(),
            Phase::Head => Err(no_transaction("Xid")),
            Phase::Xa | Phase::XaEnded => Err(shape("Xid in an XA transaction")),
        }
    }

    fn commit(&mut self) -> Result<Ended, Halt> {
        self.statement_is_over()?;
        Ok(self.created.take().map_or(Ended::Committed, Ended::SchemaChange))
    }

    fn statement_is_over(&self) -> Result<(), Halt> {
        if self.statement.is_unfinished() {
            return Err(shape("the last rows event of a statement is missing"));
        }
        Ok(())
    }

    /// With one phase it is the commit of an ordinary transaction.
    fn xa_prepare(&mut self, event: &XaPrepare, policy: XaPolicy) -> Result<Ended, Halt> {
        match self.phase {
            Phase::XaEnded => {
                let xid = XidDigest::new(&event.gtrid, &event.bqual);
                self.same_xa(xid)?;
                self.statement_is_over()?;
                match policy {
                    _ if event.one_phase => self.commit(),
                    XaPolicy::Track(_) => Ok(Ended::Prepared(xid)),
                    XaPolicy::PassOver => self.commit(),
                    XaPolicy::Refuse => Err(shape("a two-phase XA transaction is prepared")),
                }
            }
            Phase::Head => Err(no_transaction("XA_prepare")),
            Phase::Transaction | Phase::CreateTable | Phase::Xa => Err(shape("XA_prepare without XA END")),
        }
    }

    fn same_xa(&self, xid: XidDigest) -> Result<(), Halt> {
        if self.xid == Some(xid) {
            return Ok(());
        }
        Err(shape("the events of an XA transaction name different ones"))
    }

    fn query(
        &mut self,
        event: &QueryEvent<'_>,
        header: EventHeader,
        known: &mut Known,
    ) -> Result<Option<Ended>, Halt> {
        let statement = classify(event)?;
        match (self.phase, statement) {
            (Phase::Head, Statement::Ddl(ddl)) => self.ddl(ddl, event, header, known).map(Some),
            (Phase::Head, Statement::TemporaryTable(change)) => {
                self.may_hold_statements()?;
                known.temporary.note(event.thread_id, change)?;
                Ok(Some(Ended::Committed))
            }
            (Phase::Head, statement) => self.first_statement(&statement, event, known.policy.xa),
            (Phase::Transaction | Phase::CreateTable | Phase::Xa, statement) => {
                self.inner_statement(statement, event, &known.policy.filter)
            }
            (Phase::XaEnded, statement) => {
                Err(refusal(&statement, "a statement between XA END and the prepare"))
            }
        }
    }

    /// The statement that follows the GTID: it opens a transaction or commits by itself.
    fn first_statement(
        &mut self,
        statement: &Statement,
        event: &QueryEvent<'_>,
        xa: XaPolicy,
    ) -> Result<Option<Ended>, Halt> {
        match statement {
            Statement::Begin => self.enter(Phase::Transaction),
            Statement::Xa(XaVerb::Start) => {
                self.xid = Some(named_xid(event)?);
                self.enter(Phase::Xa);
            }
            Statement::Xa(XaVerb::Commit) => return self.resolve(event, Verdict::Commit, xa).map(Some),
            Statement::Xa(XaVerb::Rollback) => return self.resolve(event, Verdict::Rollback, xa).map(Some),
            Statement::Commit => return Err(no_transaction("COMMIT")),
            other => return Err(refusal(other, "a statement that begins no transaction")),
        }
        Ok(None)
    }

    fn resolve(&self, event: &QueryEvent<'_>, verdict: Verdict, xa: XaPolicy) -> Result<Ended, Halt> {
        self.may_hold_statements()?;
        match xa {
            XaPolicy::Track(_) => Ok(Ended::Resolved(named_xid(event)?, verdict)),
            XaPolicy::PassOver => Ok(Ended::Committed),
            XaPolicy::Refuse => Err(shape("a two-phase XA transaction is resolved")),
        }
    }

    fn ddl(
        &self,
        mut ddl: Ddl,
        event: &QueryEvent<'_>,
        header: EventHeader,
        known: &mut Known,
    ) -> Result<Ended, Halt> {
        self.may_hold_statements()?;
        if header.is_thread_specific() {
            match known.temporary.subject(event.thread_id, &ddl) {
                Subject::BaseTable => {}
                Subject::TemporaryTable => return Ok(Ended::Committed),
                // A copy is right whatever the statement has done, and to which of the two.
                Subject::Either => ddl = Ddl { kind: DdlKind::AlterTable, content: Content::Names, ..ddl },
            }
        }
        let Some(table) = replicated(&ddl, &known.policy.filter) else { return Ok(Ended::Committed) };
        if event.error_code != 0 {
            let detail = format!("{} failed halfway with error {}", ddl.kind.name(), event.error_code);
            return Err(on(Halt::new(Reason::DdlUnsupported, detail), &table));
        }
        if adds_cascade(&ddl, event) {
            known.cascades.exist = true;
            if !known.cascades.logged {
                let detail = "a foreign key is added whose actions change rows that the source does not log";
                return Err(on(Halt::new(Reason::CascadeNotLogged, detail), &table));
            }
        }
        let system_time_zone = known.system_time_zone.clone();
        let facts = StatementFacts { system_time_zone, ..facts(event, header.timestamp) };
        Ok(Ended::SchemaChange(Box::new((ddl, facts))))
    }

    /// A statement inside BEGIN or XA START.
    fn inner_statement(
        &mut self,
        statement: Statement,
        event: &QueryEvent<'_>,
        filter: &Filter,
    ) -> Result<Option<Ended>, Halt> {
        match (self.phase, statement) {
            (_, Statement::Savepoint) => {
                self.statement_is_over()?;
                self.statement.clear();
                self.item("SAVEPOINT")?;
            }
            (Phase::Transaction, Statement::Commit) => return self.commit().map(Some),
            (Phase::Transaction, Statement::CreateTableWithRows(ddl)) if !self.has_items => {
                self.may_hold_statements()?;
                if replicated(&ddl, filter).is_some() {
                    self.created = Some(Box::new((ddl, StatementFacts::default())));
                }
                self.enter(Phase::CreateTable);
            }
            (Phase::Xa, Statement::Xa(XaVerb::End)) => {
                self.same_xa(named_xid(event)?)?;
                self.statement_is_over()?;
                self.enter(Phase::XaEnded);
            }
            (_, Statement::TemporaryTable(_)) => {
                return Err(statement_format("the DDL of a temporary table"));
            }
            (_, other) => return Err(refusal(&other, "a statement that no transaction may hold")),
        }
        Ok(None)
    }

    /// The GTID event says of groups of rows that they hold nothing else.
    fn may_hold_statements(&self) -> Result<(), Halt> {
        if self.head.flags & GtidEvent::MAY_HAVE_STATEMENTS != 0 {
            return Ok(());
        }
        Err(shape("a statement under a GTID that announces rows only"))
    }
}

/// The halt for an event that needs a GTID and has none.
pub(super) fn without_gtid(event: &Event<'_>, raw: &RawEvent) -> Halt {
    let what = type_name(raw.header.event_type);
    let (reason, detail) = match event {
        Event::Query(query) => match classify(query) {
            Err(halt) => return halt,
            Ok(Statement::Begin | Statement::Xa(XaVerb::Start)) => {
                (Reason::BeginWithoutGtid, "a transaction begins without a GTID".to_owned())
            }
            Ok(Statement::Commit) => {
                (Reason::TerminatorWithoutTransaction, "COMMIT outside a transaction".to_owned())
            }
            Ok(statement) => {
                let without_gtid = || Halt::new(Reason::QueryWithoutGtid, "a statement without a GTID");
                return refused_anywhere(&statement).unwrap_or_else(without_gtid);
            }
        },
        Event::TransactionPayload(_) => {
            (Reason::BeginWithoutGtid, "a compressed transaction without a GTID".to_owned())
        }
        Event::Xid(_) | Event::XaPrepare(_) => {
            (Reason::TerminatorWithoutTransaction, format!("{what} outside a transaction"))
        }
        Event::AnonymousGtid => (Reason::AnonymousGtid, "a transaction without a GTID".to_owned()),
        Event::Incident(_) => (Reason::Incident, "the source lost changes".to_owned()),
        Event::StatementPart(_) => (Reason::StatementFormatDml, format!("a {what} event")),
        Event::ObsoleteRows(code) | Event::Unknown(code) => return unknown(*code),
        _ => (Reason::RowsWithoutTransaction, format!("{what} outside a transaction")),
    };
    Halt::new(reason, detail)
}

fn named_xid(event: &QueryEvent<'_>) -> Result<XidDigest, Halt> {
    XidDigest::of_statement(event.statement)
        .ok_or_else(|| shape("an XA statement does not name its transaction as the server does"))
}

/// What gives the statement its meaning besides its text.
fn facts(event: &QueryEvent<'_>, seconds: u32) -> StatementFacts {
    let micros = event.microseconds.unwrap_or_default();
    let zone = event.time_zone.and_then(|zone| str::from_utf8(zone).ok());
    StatementFacts {
        timestamp_micros: u64::from(seconds) * 1_000_000 + u64::from(micros),
        time_zone: zone.map(str::to_owned),
        system_time_zone: None,
        sql_mode: event.sql_mode,
        explicit_defaults_for_timestamp: event.explicit_defaults_for_timestamp,
    }
}

fn context<'a>(event: &QueryEvent<'a>) -> Context<'a> {
    Context {
        default_database: event.default_db,
        sql_mode: event.sql_mode,
        client_collation: event.client_charset,
        connection_collation: event.connection_collation,
    }
}

/// Whether the statement gives a table a foreign key that acts on the table's rows.
fn adds_cascade(ddl: &Ddl, event: &QueryEvent<'_>) -> bool {
    matches!(ddl.kind, DdlKind::CreateTable | DdlKind::AlterTable)
        && statement::has_referential_action(event.statement, &context(event))
}

/// An update or delete whose event does not say that the SQL layer has carried out what foreign
/// keys do may have changed rows that no event tells of. With `foreign_key_checks=0` they do nothing.
fn cascade_is_logged(flags: u16, cascades: Cascades) -> Result<(), Halt> {
    const ENOUGH: u16 = RowsEvent::USE_SQL_FOREIGN_KEY | RowsEvent::NO_FOREIGN_KEY_CHECKS;
    if !cascades.exist || flags & ENOUGH != 0 {
        return Ok(());
    }
    let detail = "rows were changed on a server that does not log what foreign keys with actions change";
    Err(Halt::new(Reason::CascadeNotLogged, detail))
}

fn classify(event: &QueryEvent<'_>) -> Result<Statement, Halt> {
    statement::classify(event.statement, &context(event)).map_err(|unparsed| {
        Halt::new(
            Reason::DdlUnparsed,
            format!("a statement of the kind {} was not understood", unparsed.verb),
        )
    })
}

/// The halt for a statement where the grammar has no place for it; `otherwise` says why.
fn refusal(statement: &Statement, otherwise: &'static str) -> Halt {
    refused_anywhere(statement).unwrap_or_else(|| shape(otherwise))
}

/// The halt for a statement that has no place anywhere.
fn refused_anywhere(statement: &Statement) -> Option<Halt> {
    match statement {
        Statement::Rollback | Statement::RollbackToSavepoint => {
            Some(Halt::new(Reason::RollbackInStream, "the stream holds a ROLLBACK"))
        }
        Statement::Dml => Some(statement_format("changes as a statement")),
        _ => None,
    }
}

/// Whether the statement names this table and no other.
fn is_only_table(ddl: &Ddl, map: &TableMap) -> bool {
    matches!(ddl.tables.as_slice(), [only] if only.database == map.database && only.table == map.table)
}

/// A replicated object that the statement changes: a table, or a database as `(name, "*")`.
fn replicated(ddl: &Ddl, filter: &Filter) -> Option<(String, String)> {
    let table = ddl.tables.iter().find(|name| filter.matches(&name.database, &name.table));
    table.map(|name| (name.database.clone(), name.table.clone())).or_else(|| {
        let database = ddl.databases.iter().find(|database| filter.may_match_in(database));
        database.map(|database| (database.clone(), "*".to_owned()))
    })
}

fn on(halt: Halt, (database, table): &(String, String)) -> Halt {
    halt.on_table(database, table)
}

fn shape(detail: &'static str) -> Halt {
    Halt::new(Reason::UnsupportedTransactionShape, detail)
}

fn statement_format(what: &'static str) -> Halt {
    Halt::new(Reason::StatementFormatDml, format!("the stream holds {what}"))
}

fn no_transaction(what: &'static str) -> Halt {
    Halt::new(Reason::TerminatorWithoutTransaction, format!("{what} without a transaction"))
}

fn unknown(code: u8) -> Halt {
    Halt::new(Reason::UnknownEvent, format!("event type {code} ({})", type_name(code)))
}
