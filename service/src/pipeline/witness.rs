//! Whether a binlog file that the stream goes on with is of the history that it has sent so far.
//!
//! A dump keeps the file open that it reads. After RESET BINARY LOGS AND GTIDS it goes on from the end
//! of that file, which is deleted, to the next one of the new history, and sends those transactions of it
//! that the dump was not told of. So before anything of a further file is folded, a transaction
//! that was received before is looked up once more. A reset takes every transaction, so that any
//! tells; the first of a file is found without reading on.

use crate::binlog::event::{EventHeader, RawEvent, event_type};
use crate::config::SourceConfig;
use crate::fold::unit::{Fingerprint, Unit};
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason};
use crate::source::dump::fingerprint_on;

/// The transaction that tells.
pub(super) struct Witness {
    source: SourceConfig,
    /// Another one than the stream's, which the source would end.
    replica_uuid: Uuid,
    server: Uuid,
    group: Option<(Gtid, Fingerprint)>,
    /// Whether the stream has begun with a file.
    has_begun: bool,
    /// Whether a transaction of the present file has been received.
    is_of_file: bool,
}

impl Witness {
    /// For the stream that this identity has from a server, and the transaction that was applied last
    /// as that one has it.
    pub(super) fn new(
        source: SourceConfig,
        stream: Uuid,
        server: Uuid,
        last: Option<(Gtid, Fingerprint)>,
    ) -> Self {
        let Uuid(mut bytes) = stream;
        if let Some(byte) = bytes.last_mut() {
            *byte ^= 1;
        }
        let replica_uuid = Uuid(bytes);
        Self { source, replica_uuid, server, group: last, has_begun: false, is_of_file: false }
    }

    /// Takes note of a unit of the stream.
    pub(super) fn received(&mut self, unit: &Unit) {
        if !self.is_of_file {
            self.group = Some((unit.gtid().clone(), unit.fingerprint().clone()));
            self.is_of_file = true;
        }
    }

    /// Takes note of an event before it is folded. `received` is all that the stream has brought.
    ///
    /// # Errors
    /// `source_history_diverged` where it begins a file of another history. To be retried where the source
    /// lacks the transaction, which a resume explains.
    pub(super) async fn event(
        &mut self,
        event: &RawEvent,
        received: impl Fn() -> GtidSet,
    ) -> Result<(), Failure> {
        if !begins_file(&event.header) || !std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        self.is_of_file = false;
        let Some((gtid, known)) = &self.group else { return Ok(()) };
        let replica_uuid = self.replica_uuid.to_string();
        match fingerprint_on(&self.server, &self.source, &replica_uuid, &received(), gtid).await {
            Ok(Some(found)) if found != *known => {
                let detail = "a transaction that the stream brought has another commit time or length on the \
                              source by now";
                Err(Halt::new(Reason::SourceHistoryDiverged, detail).at_gtid(gtid).into())
            }
            // A dump that has begun is not ended by a setting that keeps others from beginning.
            Err(Failure::Halt(halt)) if halt.reason == Reason::SourcePreflight => {
                tracing::warn!("whether the source still has its history can't be looked up: {halt}");
                Ok(())
            }
            Err(failure) => Err(failure),
            // Files that were read may be purged.
            Ok(Some(_) | None) => Ok(()),
        }
    }
}

/// The source makes up a ROTATE for the stream before the first event of each file.
const fn begins_file(header: &EventHeader) -> bool {
    header.is_artificial() && header.event_type == event_type::ROTATE
}
