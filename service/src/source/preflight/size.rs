//! How much there is to copy, and whether the binlog lasts for the time of it.

use mysql_async::Conn;

use super::settings::Settings;
use super::{rows, text};
use crate::halt::Failure;
use crate::preflight::{Finding, Size};
use crate::schema::filter::Filter;
use crate::source::reader::field;

/// What a copy moves at least, in bytes a second: a slow line, or one disk shared with others.
const COPY_BYTES_PER_SECOND: u64 = 10 << 20;

/// The statistics' word for every base table; a server brings them up to date now and then only.
const SIZES: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, CAST(DATA_LENGTH AS UNSIGNED), CAST(INDEX_LENGTH AS UNSIGNED) \
     FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'";

pub(super) async fn read(conn: &mut Conn, filter: &Filter) -> Result<Size, Failure> {
    let mut size = Size::default();
    for mut row in rows(conn, "show the sizes of its tables", SIZES).await? {
        let (database, table) = (text(&mut row, 0)?, text(&mut row, 1)?);
        if filter.matches(&database, &table) {
            let (data, indexes) = (field(&mut row, 2)?, field(&mut row, 3)?);
            size.add(data.unwrap_or_default(), indexes.unwrap_or_default());
        }
    }
    Ok(size)
}

/// Half of the retention is left for what comes in between.
pub(super) fn check_retention(settings: &Settings, size: &Size) -> Option<Finding> {
    let kept = settings.expiry_seconds()?;
    let copy = size.data_bytes / COPY_BYTES_PER_SECOND;
    (copy.saturating_mul(2) > kept).then(|| {
        Finding::warning(
            "source.retention",
            format!("binlogs are purged after {kept} s, and the tables have {} MB", size.data_bytes >> 20),
            format!(
                "their copy may take {copy} s (at {} MB/s), and the changes that are made meanwhile have to be in \
                 the binlog when it ends",
                COPY_BYTES_PER_SECOND >> 20
            ),
            format!("SET PERSIST binlog_expire_logs_seconds = {};", copy.saturating_mul(4)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binlog_has_to_outlast_the_copy() {
        let check = |seconds: &str, data_bytes| {
            let mut settings = Settings::new("9.7.0".to_owned(), (9, 7, 0));
            settings.insert("binlog_expire_logs_seconds".to_owned(), seconds.to_owned());
            check_retention(&settings, &Size { data_bytes, ..Size::default() })
        };
        assert_eq!(check("100", 50 * COPY_BYTES_PER_SECOND), None);
        let finding = check("100", 51 * COPY_BYTES_PER_SECOND).unwrap();
        assert!(!finding.is_error() && finding.fix.ends_with("= 204;"), "{finding}");
        assert_eq!(check("0", u64::MAX), None, "never purged");
    }
}
