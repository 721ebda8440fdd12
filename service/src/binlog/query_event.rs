//! QUERY: a statement as text, with the session settings that give it its meaning.

use std::fmt;

use super::DecodeError;
use super::reader::Reader;

/// A statement logged as text: BEGIN, COMMIT, DDL, administration, DML in statement format.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryEvent<'a> {
    /// The session that ran the statement, as its server counts them.
    pub thread_id: u32,
    /// The session's default database, utf8mb3; empty if there is none.
    pub default_db: &'a [u8],
    /// The text, in the character set of `client_charset`.
    pub statement: &'a [u8],
    /// Error number that the statement ended with on the source; 0 for success.
    pub error_code: u16,
    /// Bit set of `sql_mode` (server source `sql/system_variables.h`, `MODE_*`).
    pub sql_mode: Option<u64>,
    /// Collation id of `character_set_client`: the statement's own encoding.
    pub client_charset: Option<u16>,
    /// Collation id of `collation_connection`: the type of string literals.
    pub connection_collation: Option<u16>,
    /// `explicit_defaults_for_timestamp`.
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// `time_zone`, where the statement depends on it.
    pub time_zone: Option<&'a [u8]>,
    /// Microseconds of the statement's time behind the header's seconds, where the statement
    /// depends on them.
    pub microseconds: Option<u32>,
}

impl fmt::Debug for QueryEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryEvent")
            .field("statement_length", &self.statement.len())
            .field("error_code", &self.error_code)
            .field("sql_mode", &self.sql_mode)
            .field("client_charset", &self.client_charset)
            .finish_non_exhaustive()
    }
}

/// Server source `statement_events.h`, `Query_event`.
pub(super) fn parse(body: &[u8]) -> Result<QueryEvent<'_>, DecodeError> {
    let mut reader = Reader::new("QUERY", body);
    let thread_id = reader.u32()?;
    reader.take(4)?; // execution time
    let database_length = reader.u8()?;
    let error_code = reader.u16()?;
    let status_length = reader.u16()?;
    let status = reader.nested("QUERY status variables", status_length.into())?;
    let default_db = reader.take(database_length.into())?;
    let error = reader.error();
    if reader.u8()? != 0 {
        return Err(error);
    }
    let statement = reader.rest();
    let mut query = QueryEvent { thread_id, default_db, statement, error_code, ..QueryEvent::default() };
    read_status(&mut query, status)?;
    Ok(query)
}

/// Server source `statement_events.h`, `Query_event_status_vars`. The server writes variables that
/// are new to a reader behind those it knows, so an unknown one ends the reading; what was not
/// read stays `None` and whoever needs it refuses the statement.
fn read_status<'a>(query: &mut QueryEvent<'a>, mut status: Reader<'a>) -> Result<(), DecodeError> {
    while !status.is_empty() {
        match status.u8()? {
            0 | 10 => skip(&mut status, 4)?, // flags2, master_data_written
            1 => query.sql_mode = Some(status.u64()?),
            2 => {
                status.short_bytes()?; // catalog with a terminator
                skip(&mut status, 1)?;
            }
            3 => skip(&mut status, 4)?, // auto_increment_increment and _offset
            4 => {
                query.client_charset = Some(status.u16()?);
                query.connection_collation = Some(status.u16()?);
                skip(&mut status, 2)?; // collation_server
            }
            5 => query.time_zone = Some(status.short_bytes()?),
            6 => skip_short_bytes(&mut status)?, // catalog
            // lc_time_names, collation_database, default_collation_for_utf8mb4
            7 | 8 | 18 => skip(&mut status, 2)?,
            9 | 17 => skip(&mut status, 8)?, // table map for update, the server's XID of an atomic DDL
            11 => {
                skip_short_bytes(&mut status)?; // invoker: user, host
                skip_short_bytes(&mut status)?;
            }
            12 => skip_updated_databases(&mut status)?,
            13 => query.microseconds = Some(u32::from(status.u16()?) | u32::from(status.u8()?) << 16),
            16 => query.explicit_defaults_for_timestamp = Some(status.u8()? != 0),
            19..=21 => skip(&mut status, 1)?, // sql_require_primary_key, default_table_encryption, one of 9.x
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn skip(status: &mut Reader<'_>, count: usize) -> Result<(), DecodeError> {
    status.take(count).map(|_| ())
}

fn skip_short_bytes(status: &mut Reader<'_>) -> Result<(), DecodeError> {
    status.short_bytes().map(|_| ())
}

/// A count, then names with a terminator each; the count 254 stands for more than can be listed.
fn skip_updated_databases(status: &mut Reader<'_>) -> Result<(), DecodeError> {
    const UNLISTED: u8 = 254;
    let count = status.u8()?;
    if count != UNLISTED {
        for _ in 0..count {
            status.until_nul()?;
        }
    }
    Ok(())
}
