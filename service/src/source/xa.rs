//! The source's own list of XA transactions that are prepared and not resolved.

use std::collections::BTreeSet;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::connect::{failure, server_code};
use super::reader::field;
use crate::fold::xa::XidDigest;
use crate::halt::{Failure, Side};

/// `XAER_RMERR`: the right XA_RECOVER_ADMIN is missing.
const ER_XAER_RMERR: u16 = 1401;

/// What `XA RECOVER CONVERT XID` lists; `None` without XA_RECOVER_ADMIN. (MySQL manual, "XA
/// Transaction SQL Statements".) Transactions that changed nothing are listed too, and are in no
/// binlog.
///
/// # Errors
/// Failures of the connection, and an answer that can't be read.
pub async fn prepared(conn: &mut Conn) -> Result<Option<BTreeSet<XidDigest>>, Failure> {
    let doing = "list prepared XA transactions";
    let rows = match conn.query::<Row, _>("XA RECOVER CONVERT XID").await {
        Ok(rows) => rows,
        Err(error) if server_code(&error) == Some(ER_XAER_RMERR) => return Ok(None),
        Err(error) => return Err(failure(doing, &error)),
    };
    rows.into_iter().map(|mut row| digest(&mut row)).collect::<Result<_, _>>().map(Some)
}

/// Columns: formatID, gtrid_length, bqual_length, data.
fn digest(row: &mut Row) -> Result<XidDigest, Failure> {
    let length = |row: &mut Row, index| field::<u64>(row, index).map(|length| length.map(usize::try_from));
    let (gtrid, bqual) = (length(row, 1)?, length(row, 2)?);
    let data: Option<String> = field(row, 3)?;
    let (Some(Ok(gtrid)), Some(Ok(bqual)), Some(data)) = (gtrid, bqual, data) else {
        return Err(unreadable());
    };
    XidDigest::of_recovered(gtrid, bqual, &data).ok_or_else(unreadable)
}

fn unreadable() -> Failure {
    Failure::retry(Side::Source, "the source's list of prepared XA transactions can't be read")
}
