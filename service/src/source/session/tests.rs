//! Sessions over a pipe whose other end says what it is told to.

use futures_util::FutureExt;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Builder;

use super::packet::{FRAME_MAX, frame};
use super::*;

const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
const OK: &[u8] = &[0, 0, 0, 2, 0, 3, 0];
const DENIED: &[u8] = b"\xff\x76\x04#42000SELECT command denied";
const PREPARED: &[u8] = &[0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// The definition of an INT UNSIGNED.
const COLUMN: &[u8] = b"\x03def\x01d\x01t\x01t\x01c\x01c\x0c\x3f\x00\x0b\x00\x00\x00\x03\x21\x10\x00\x00\x00";

/// The answer to a query for one column, up to its rows.
const QUERIED: &[&[&[u8]]] = &[&[PREPARED, COLUMN, EOF], &[&[1], COLUMN, EOF]];

fn run<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
}

/// Room for every answer, so that they can be given before the questions.
fn pair() -> (Session, DuplexStream) {
    let (ours, server) = tokio::io::duplex(2 * FRAME_MAX + (1 << 20));
    (Session::over(ours), server)
}

/// Packets that answer one command each.
async fn answer(server: &mut DuplexStream, packets: &[&[u8]]) {
    let (mut bytes, mut sequence) = (Vec::new(), 1);
    for packet in packets {
        sequence = frame(packet, sequence, &mut bytes);
    }
    server.write_all(&bytes).await.unwrap();
}

async fn answer_query(server: &mut DuplexStream, rows: &[&[u8]]) {
    answer(server, QUERIED[0]).await;
    answer(server, &[QUERIED[1], rows].concat()).await;
}

/// What has been asked so far.
async fn asked(server: &mut DuplexStream) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let length = server.read(&mut bytes).await.unwrap();
    bytes.truncate(length);
    bytes
}

#[test]
fn statements_and_values() {
    run(async {
        let (mut session, mut server) = pair();
        answer(&mut server, &[OK]).await;
        assert_eq!(session.execute("DO 0").await.unwrap(), 3);
        assert_eq!(asked(&mut server).await, b"\x05\0\0\0\x03DO 0");
        answer(&mut server, &[&[1], COLUMN, EOF, b"\x02ab", EOF]).await;
        assert_eq!(session.value("SELECT 1").await.unwrap().as_deref(), Some("ab"));
        answer(&mut server, &[&[1], COLUMN, EOF, &[0xfb], EOF]).await;
        assert_eq!(session.value("SELECT NULL").await.unwrap(), None);
        answer(&mut server, &[&[1], COLUMN, EOF, EOF]).await;
        assert_eq!(session.value("SELECT 1 LIMIT 0").await.unwrap(), None);
        answer(&mut server, &[&[1], COLUMN, DENIED]).await;
        let denied = session.value("SELECT 1").await;
        assert!(matches!(denied, Err(SessionError::Server(ServerError { code: 1142, .. }))));
        answer(&mut server, &[OK]).await;
        session.execute("DO 0").await.unwrap();
    });
}

#[test]
fn rows_come_with_their_definition_and_the_statement_is_closed() {
    run(async {
        let (mut session, mut server) = pair();
        answer_query(&mut server, &[&[0, 0, 1], &[0, 4], EOF]).await;
        let definitions = session.query("SELECT c").await.unwrap();
        assert_eq!(definitions, [Definition { column_type: 3, unsigned: true }]);
        assert_eq!(session.next_row().await.unwrap(), Some(&[0, 1][..]));
        assert_eq!(session.next_row().await.unwrap(), Some(&[4][..]));
        assert_eq!(session.next_row().await.unwrap(), None);
        assert_eq!(session.next_row().await.unwrap(), None);
        let prepared = b"\x09\0\0\0\x16SELECT c\x0a\0\0\0\x17\x07\0\0\0\0\x01\0\0\0";
        assert_eq!(asked(&mut server).await, prepared);
        answer(&mut server, &[OK]).await;
        session.execute("DO 0").await.unwrap();
        assert_eq!(asked(&mut server).await, b"\x05\0\0\0\x19\x07\0\0\0\x05\0\0\0\x03DO 0");
    });
}

#[test]
fn rows_that_nobody_asks_for_are_passed_over() {
    run(async {
        let (mut session, mut server) = pair();
        answer_query(&mut server, &[&[0, 0, 1], &[0, 0, 2], &[0, 0, 3], EOF]).await;
        session.query("SELECT c").await.unwrap();
        assert!(session.next_row().await.unwrap().is_some());
        answer(&mut server, &[OK]).await;
        session.execute("DO 0").await.unwrap();
    });
}

#[test]
fn a_session_takes_leave() {
    run(async {
        let (session, mut server) = pair();
        session.close().await;
        assert_eq!(asked(&mut server).await, b"\x01\0\0\0\x01");
        assert_eq!(asked(&mut server).await, b"");
    });
}

#[test]
fn a_row_of_several_frames_is_one() {
    run(async {
        let (mut session, mut server) = pair();
        let row: Vec<u8> = [0].into_iter().chain((0..FRAME_MAX).map(|i| (i % 251) as u8)).collect();
        answer_query(&mut server, &[&row, &[0, 4], EOF]).await;
        session.query("SELECT c").await.unwrap();
        assert_eq!(session.next_row().await.unwrap(), Some(&row[1..]));
        assert_eq!(session.next_row().await.unwrap(), Some(&[4][..]));
        assert_eq!(session.next_row().await.unwrap(), None);
    });
}

#[test]
fn an_error_among_rows_ends_them_and_not_the_session() {
    run(async {
        let (mut session, mut server) = pair();
        answer_query(&mut server, &[&[0, 0, 1], DENIED]).await;
        session.query("SELECT c").await.unwrap();
        assert!(session.next_row().await.unwrap().is_some());
        assert!(matches!(session.next_row().await, Err(SessionError::Server(_))));
        assert_eq!(session.next_row().await.unwrap(), None);
        answer(&mut server, &[OK]).await;
        session.execute("DO 0").await.unwrap();
    });
}

#[test]
fn a_lost_connection_and_an_exchange_that_was_given_up_are_errors() {
    run(async {
        let (mut session, mut server) = pair();
        answer_query(&mut server, &[&[0, 0, 1]]).await;
        session.query("SELECT c").await.unwrap();
        assert!(session.next_row().await.unwrap().is_some());
        drop(server);
        assert!(matches!(session.next_row().await, Err(SessionError::Wire(WireError::Closed))));
        assert!(session.execute("DO 0").await.is_err());

        let (mut session, mut server) = pair();
        assert!(session.execute("DO 0").now_or_never().is_none());
        answer(&mut server, &[OK]).await;
        assert!(matches!(session.execute("DO 0").await, Err(SessionError::Unfinished)));
    });
}

#[test]
fn what_the_protocol_does_not_allow_is_refused() {
    let row_first: &[&[&[u8]]] = &[&[PREPARED, COLUMN, EOF], &[&[1], COLUMN, &[0, 0]]];
    let no_columns: &[&[&[u8]]] = &[&[&[0, 7, 0, 0, 0, 0, 0, 0, 0]]];
    let parameters: &[&[&[u8]]] = &[&[&[0, 7, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]]];
    let no_rows: &[&[&[u8]]] = &[&[PREPARED, COLUMN, EOF], &[OK]];
    let many: &[&[&[u8]]] = &[&[PREPARED, COLUMN, EOF], &[&[0xfc, 1, 0x10]]];
    for answers in [row_first, no_columns, parameters, no_rows, many] {
        run(async {
            let (mut session, mut server) = pair();
            for packets in answers {
                answer(&mut server, packets).await;
            }
            assert!(matches!(session.query("SELECT c").await, Err(SessionError::Unexpected)));
            assert!(matches!(session.execute("DO 0").await, Err(SessionError::Unfinished)));
        });
    }
    run(async {
        let (mut session, mut server) = pair();
        answer_query(&mut server, &[&[7]]).await;
        session.query("SELECT c").await.unwrap();
        assert!(matches!(session.next_row().await, Err(SessionError::Unexpected)));
        assert!(matches!(session.execute("DO 0").await, Err(SessionError::Unfinished)));
    });
}

proptest! {
    #[test]
    fn no_answer_breaks_a_session(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
        run(async {
            let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
            let (mut session, mut server) = pair();
            answer(&mut server, QUERIED[0]).await;
            answer(&mut server, &packets).await;
            drop(server);
            if session.query("SELECT c").await.is_ok() {
                while let Ok(Some(_)) = session.next_row().await {}
            }
            let (mut session, mut server) = pair();
            answer(&mut server, &packets).await;
            drop(server);
            let _value_or_error = session.value("SELECT 1").await;
        });
    }
}
