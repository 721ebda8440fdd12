//! Logging in: the server's greeting, our answer, and the exchange of the two password plugins
//! that MySQL 8.0 to 9.7 accounts use, `caching_sha2_password` and `mysql_native_password`.
//!
//! MySQL internals manual, "Connection Phase". A password is sent in clear only inside TLS;
//! without TLS it is encrypted with the RSA key that the server sends, which is not pinned. No
//! other plugin is answered, `mysql_clear_password` least of all.

use std::collections::HashMap;

use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakeResponse, SslRequest};
use mysql_common::proto::MySerialize;
use openssl::rsa::{Padding, Rsa};

use super::packet::PACKET_MAX;

/// What we can do and what every supported server can.
const CAPABILITIES: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(CapabilityFlags::CLIENT_CONNECT_ATTRS)
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS);

/// utf8mb4_general_ci.
const CONNECTION_COLLATION: u8 = 45;

/// Why the login could not be carried through. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthError {
    #[error("the server's greeting is not that of MySQL 8.0 or later")]
    Greeting,
    #[error("the server does not offer TLS")]
    NoTls,
    #[error("the account's authentication plugin {0} is not supported")]
    Plugin(String),
    #[error("the server's authentication exchange is malformed")]
    Malformed,
    #[error("the server's RSA key is not usable for this password")]
    PublicKey,
}

/// The server's greeting (`Protocol::HandshakeV10`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) server_version: String,
    pub(super) connection_id: u32,
    nonce: Vec<u8>,
    capabilities: CapabilityFlags,
    plugin: Vec<u8>,
}

impl Greeting {
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let rest = packet.strip_prefix(&[10])?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let server_version = String::from_utf8_lossy(&rest[..end]).into_owned();
        let (id, rest) = rest[end + 1..].split_first_chunk::<4>()?;
        let (nonce_head, rest) = rest.split_first_chunk::<8>()?;
        let ([_filler, c0, c1, _collation, _s0, _s1, c2, c3, data_length], rest) =
            rest.split_first_chunk::<9>()?;
        let (_reserved, rest) = rest.split_first_chunk::<10>()?;
        // The second part is at least 13 bytes, the last of which is a terminating zero.
        let (nonce_tail, plugin) =
            rest.split_at_checked(usize::from(*data_length).saturating_sub(8).max(13))?;
        let mut nonce = nonce_head.to_vec();
        nonce.extend_from_slice(nonce_tail.strip_suffix(&[0]).unwrap_or(nonce_tail));
        Some(Self {
            server_version,
            connection_id: u32::from_le_bytes(*id),
            nonce,
            capabilities: CapabilityFlags::from_bits_truncate(u32::from_le_bytes([*c0, *c1, *c2, *c3])),
            plugin: plugin.strip_suffix(&[0]).unwrap_or(plugin).to_vec(),
        })
    }

    /// The request to go on in TLS.
    pub(super) fn ssl_request(&self) -> Result<Vec<u8>, AuthError> {
        if !self.capabilities.contains(CapabilityFlags::CLIENT_SSL) {
            return Err(AuthError::NoTls);
        }
        let flags = CAPABILITIES | CapabilityFlags::CLIENT_SSL;
        let mut out = Vec::new();
        SslRequest::new(flags, max_packet(), CONNECTION_COLLATION).serialize(&mut out);
        Ok(out)
    }
}

fn max_packet() -> u32 {
    u32::try_from(PACKET_MAX).unwrap_or(u32::MAX)
}

/// What to do after a packet of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Send(Vec<u8>),
    /// The server has more to say.
    Wait,
    LoggedIn,
}

/// One login in progress.
pub(super) struct Login<'a> {
    password: &'a str,
    /// Whether the channel is TLS.
    secure: bool,
    plugin: AuthPlugin<'static>,
    nonce: Vec<u8>,
    switched: bool,
    awaits_public_key: bool,
}

impl<'a> Login<'a> {
    /// Begins the login with the greeting and gives the packet to answer it with.
    pub(super) fn begin(
        greeting: &Greeting,
        user: &str,
        password: &'a str,
        secure: bool,
    ) -> Result<(Self, Vec<u8>), AuthError> {
        if !greeting.capabilities.contains(CAPABILITIES.difference(CapabilityFlags::CLIENT_LONG_PASSWORD)) {
            return Err(AuthError::Greeting);
        }
        let plugin = match AuthPlugin::from_bytes(&greeting.plugin) {
            AuthPlugin::MysqlNativePassword => AuthPlugin::MysqlNativePassword,
            // Whatever else the server's default is, it switches to the account's own plugin.
            _ => AuthPlugin::CachingSha2Password,
        };
        let nonce = greeting.nonce.clone();
        let login = Self { password, secure, plugin, nonce, switched: false, awaits_public_key: false };
        let mut flags = CAPABILITIES;
        flags.set(CapabilityFlags::CLIENT_SSL, secure);
        let attributes =
            [("_client_name", "tidegate"), ("program_name", "tidegate"), ("_client_version", VERSION)];
        let response = HandshakeResponse::new(
            Some(login.scramble()),
            (8, 0, 0),
            Some(user.as_bytes()),
            None::<&[u8]>,
            Some(login.plugin.clone()),
            flags,
            Some(HashMap::from(attributes.map(|(name, value)| (name.to_owned(), value.to_owned())))),
            max_packet(),
        );
        let mut out = Vec::new();
        response.serialize(&mut out);
        Ok((login, out))
    }

    /// Answers a packet that is not an error.
    pub(super) fn answer(&mut self, packet: &[u8]) -> Result<Reply, AuthError> {
        match packet.split_first() {
            Some((0x00, _)) => Ok(Reply::LoggedIn),
            Some((0x01, data)) => self.more(data),
            Some((0xfe, [_, ..])) if !self.switched => self.switch(packet),
            _ => Err(AuthError::Malformed),
        }
    }

    fn switch(&mut self, packet: &[u8]) -> Result<Reply, AuthError> {
        let request: AuthSwitchRequest<'_> = ParseBuf(packet).parse(()).map_err(|_| AuthError::Malformed)?;
        self.switched = true;
        self.nonce = request.plugin_data().to_vec();
        self.plugin = match request.auth_plugin() {
            AuthPlugin::CachingSha2Password => AuthPlugin::CachingSha2Password,
            AuthPlugin::MysqlNativePassword => AuthPlugin::MysqlNativePassword,
            other => return Err(AuthError::Plugin(String::from_utf8_lossy(other.as_bytes()).into_owned())),
        };
        if self.nonce.is_empty() {
            return Err(AuthError::Malformed);
        }
        Ok(Reply::Send(self.scramble()))
    }

    /// The answer to the nonce; empty for an empty password.
    fn scramble(&self) -> Vec<u8> {
        let data = self.plugin.gen_data(Some(self.password), &self.nonce);
        data.map(|data| data.to_vec()).unwrap_or_default()
    }

    /// `caching_sha2_password` goes on: 3 the server knew the password, 4 it wants it whole.
    fn more(&mut self, data: &[u8]) -> Result<Reply, AuthError> {
        if self.plugin != AuthPlugin::CachingSha2Password {
            return Err(AuthError::Malformed);
        }
        if std::mem::take(&mut self.awaits_public_key) {
            return self.encrypted_password(data).map(Reply::Send);
        }
        match data {
            [3] => Ok(Reply::Wait),
            [4] if self.secure => Ok(Reply::Send(self.terminated_password())),
            [4] => {
                self.awaits_public_key = true;
                Ok(Reply::Send(vec![REQUEST_PUBLIC_KEY]))
            }
            _ => Err(AuthError::Malformed),
        }
    }

    fn terminated_password(&self) -> Vec<u8> {
        let mut password = self.password.as_bytes().to_vec();
        password.push(0);
        password
    }

    /// The password, masked with the nonce, under the server's RSA key.
    fn encrypted_password(&self, pem: &[u8]) -> Result<Vec<u8>, AuthError> {
        let mut masked = self.terminated_password();
        for (byte, mask) in masked.iter_mut().zip(self.nonce.iter().cycle()) {
            *byte ^= mask;
        }
        let key = Rsa::public_key_from_pem(pem).map_err(|_| AuthError::PublicKey)?;
        let mut out = vec![0; key.size() as usize];
        let length =
            key.public_encrypt(&masked, &mut out, Padding::PKCS1_OAEP).map_err(|_| AuthError::PublicKey)?;
        out.truncate(length);
        Ok(out)
    }
}

/// `caching_sha2_password`: asks for the server's public key.
const REQUEST_PUBLIC_KEY: u8 = 2;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests;
