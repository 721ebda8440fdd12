//! Asks a running process for its status: one HTTP/1.1 GET over TCP, RFC 9112.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::config::AdminConfig;
use crate::status::Report;

/// The surface answers from memory; a longer silence means that it hangs.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// A status with some ten thousand tables.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// Nothing answers there.
    #[error("nothing answers at {0}")]
    Unreachable(SocketAddr),
    /// Something answers, but not with a status.
    #[error("{0} {1}")]
    Refused(SocketAddr, String),
}

/// Fetches `/status`.
pub(super) async fn report(config: &AdminConfig) -> Result<Report, AskError> {
    let address = reachable(config.listen);
    let answer = tokio::time::timeout(ANSWER_TIME_MAX, exchange(address, config)).await;
    let Ok(Ok(answer)) = answer else {
        return Err(AskError::Unreachable(address));
    };
    let refused = |why: &str| AskError::Refused(address, why.to_owned());
    let (code, body) = parse(&answer).ok_or_else(|| refused("does not speak HTTP"))?;
    match code {
        200 => serde_json::from_slice(body).map_err(|_| {
            refused("answers with a status that this release can't read; use the release that runs there")
        }),
        401 => Err(refused(
            "refuses the token; admin.token_file or admin.token_env has to be the one it runs with",
        )),
        code => Err(refused(&format!("answers the request for /status with {code}; is it Tidegate?"))),
    }
}

/// Where to dial what listens on every address of the host.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn exchange(address: SocketAddr, config: &AdminConfig) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let token = config.token.as_ref().map(|token| format!("Authorization: Bearer {}\r\n", token.reveal()));
    let request = format!(
        "GET /status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept: application/json\r\n{}\r\n",
        token.unwrap_or_default()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Status code and body of an answer that ends with its connection.
fn parse(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (answer.get(..end)?, answer.get(end + 4..)?);
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let (version, rest) = line.split_once(' ')?;
    let code = rest.split(' ').next()?.parse().ok()?;
    version.starts_with("HTTP/1.").then_some((code, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;
    use crate::halt::{Halt, Reason};
    use tokio::net::TcpListener;

    fn config(listen: SocketAddr, token: Option<&str>) -> AdminConfig {
        AdminConfig { listen, token: token.map(|token| Secret::new(token.to_owned())) }
    }

    /// Answers one request with these bytes and gives the request back.
    async fn answering(answer: Vec<u8>) -> (SocketAddr, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let request = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accept");
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.expect("request");
            stream.write_all(&answer).await.expect("answer");
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        (address, request)
    }

    fn a_report() -> Report {
        let config = crate::config::parse(
            "pipeline.name = 'app'\nsource.url = 'mysql://u@h'\nsource.server_id = 1\nsource.tls = 'off'\n\
             target.url = 'postgres://u@h/db'\ntarget.tls = 'off'\ntables.include = ['a.*']\n",
            &crate::config::Environment::default(),
        );
        let status = crate::status::StatusHandle::new(&config.expect("valid"));
        status.halt(&Halt::new(Reason::DataGap, "purged"));
        status.report()
    }

    #[tokio::test]
    async fn a_status_is_fetched_with_the_token() {
        let report_there = a_report();
        let body = serde_json::to_string(&report_there).expect("JSON");
        let (address, request) =
            answering(format!("HTTP/1.1 200 OK\r\nx: y\r\n\r\n{body}").into_bytes()).await;
        let report = report(&config(address, Some("0123456789abcdef"))).await.expect("a report");
        assert_eq!(report, report_there);
        let request = request.await.expect("request");
        assert!(request.contains("\r\nAuthorization: Bearer 0123456789abcdef\r\n"), "{request}");
    }

    #[tokio::test]
    async fn other_answers_are_refused_with_what_to_do() {
        for (answer, remedy) in [
            ("HTTP/1.1 401 Unauthorized\r\n\r\n", "admin.token_file"),
            ("HTTP/1.1 404 Not Found\r\n\r\n{}", "404"),
            ("HTTP/1.1 200 OK\r\n\r\n{\"state\":\"elsewhere\"}", "can't read"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "HTTP"),
        ] {
            let (address, _request) = answering(answer.as_bytes().to_vec()).await;
            let error = report(&config(address, None)).await.expect_err(answer);
            assert!(matches!(error, AskError::Refused(..)) && error.to_string().contains(remedy), "{error}");
        }
    }

    #[tokio::test]
    async fn nothing_there_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        drop(listener);
        let error = report(&config(address, None)).await.expect_err("nothing there");
        assert!(matches!(error, AskError::Unreachable(_)), "{error}");
    }

    #[test]
    fn an_unspecified_address_is_dialled_on_loopback() {
        for (listen, dialled) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")]
        {
            let listen: SocketAddr = listen.parse().expect("address");
            assert_eq!(reachable(listen).to_string(), dialled);
        }
    }
}
