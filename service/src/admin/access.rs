//! Who may do what. Probes are open to everyone. Reading is open on a loopback address; on any
//! other it takes the token. Acting always takes the token.

use axum::http::{HeaderMap, StatusCode, header};

use crate::config::Secret;

/// Why a request is turned down: the status to answer with and what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) status: StatusCode,
    pub(super) message: &'static str,
}

#[derive(Clone)]
pub(super) struct Access {
    token: Option<Secret>,
    loopback: bool,
}

impl Access {
    pub(super) const fn new(token: Option<Secret>, loopback: bool) -> Self {
        Self { token, loopback }
    }

    /// May the sender of these headers see status and metrics?
    pub(super) fn read(&self, headers: &HeaderMap) -> Result<(), Denied> {
        if self.loopback { Ok(()) } else { self.authenticated(headers) }
    }

    /// May the sender of these headers change what the pipeline does?
    pub(super) fn act(&self, headers: &HeaderMap) -> Result<(), Denied> {
        self.authenticated(headers)
    }

    fn authenticated(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let Some(token) = &self.token else {
            return Err(Denied {
                status: StatusCode::FORBIDDEN,
                message: "no token is configured: set admin.token_file or admin.token_env and restart",
            });
        };
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        match given.and_then(bearer) {
            Some(given) if token.matches(given) => Ok(()),
            _ => Err(Denied {
                status: StatusCode::UNAUTHORIZED,
                message: "send the token of admin.token_file or admin.token_env as `Authorization: Bearer …`",
            }),
        }
    }
}

/// The credentials of the scheme `Bearer` (RFC 6750, section 2.1); schemes are case-insensitive.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().expect("a header value"));
        headers
    }

    fn status(result: Result<(), Denied>) -> u16 {
        result.map_or_else(|denied| denied.status.as_u16(), |()| 200)
    }

    #[test]
    fn acting_takes_the_token_everywhere_and_reading_off_loopback() {
        let token = || Some(Secret::new("0123456789abcdef".to_owned()));
        let right = headers("Bearer 0123456789abcdef");
        for (access, anonymous_read, anonymous_act, right_act) in [
            (Access::new(None, true), 200, 403, 403),
            (Access::new(token(), true), 200, 401, 200),
            (Access::new(token(), false), 401, 401, 200),
            (Access::new(None, false), 403, 403, 403),
        ] {
            assert_eq!(status(access.read(&HeaderMap::new())), anonymous_read);
            assert_eq!(status(access.act(&HeaderMap::new())), anonymous_act);
            assert_eq!(status(access.act(&right)), right_act);
        }
    }

    #[test]
    fn only_the_whole_token_under_its_scheme_will_do() {
        let access = Access::new(Some(Secret::new("0123456789abcdef".to_owned())), false);
        for wrong in [
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdefg",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert_eq!(status(access.read(&headers(wrong))), 401, "{wrong}");
        }
        assert_eq!(status(access.read(&headers("bearer 0123456789abcdef"))), 200);
    }
}
