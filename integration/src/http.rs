//! One HTTP/1.1 request over a plain TCP connection: all that the admin surface needs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An admin surface that takes longer than this to answer is not answering.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Status code and body of an answer.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub body: String,
}

/// `GET path`.
pub async fn get(addr: SocketAddr, path: &str) -> Result<Response> {
    request(addr, "GET", path, None).await
}

/// `POST path` without a body, with a bearer token where one is needed.
pub async fn post(addr: SocketAddr, path: &str, token: Option<&str>) -> Result<Response> {
    request(addr, "POST", path, token).await
}

async fn request(addr: SocketAddr, method: &str, path: &str, token: Option<&str>) -> Result<Response> {
    let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\ncontent-length: 0\r\n{authorization}\r\n"
    );
    tokio::time::timeout(ANSWER_TIMEOUT, exchange(addr, &request))
        .await
        .with_context(|| format!("{method} {path} on {addr} got no answer in {ANSWER_TIMEOUT:?}"))?
        .with_context(|| format!("{method} {path} on {addr}"))
}

async fn exchange(addr: SocketAddr, request: &str) -> Result<Response> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    parse(&String::from_utf8_lossy(&answer)).context("not an HTTP answer")
}

fn parse(answer: &str) -> Option<Response> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let chunked = head.lines().any(|line| line.eq_ignore_ascii_case("transfer-encoding: chunked"));
    let body = if chunked { unchunk(body)? } else { body.to_owned() };
    Some(Response { status, body })
}

fn unchunk(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_plain_and_chunked_answers() {
        let plain = parse("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno").expect("answer");
        assert_eq!((plain.status, plain.body.as_str()), (503, "no"));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(parse(chunked).expect("answer").body, "abcde");
        assert!(parse("SSH-2.0").is_none());
    }
}
