//! Parameters of prepared statements as bytes that are already in Postgres's binary form.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use tokio_postgres::types::{Format, IsNull, ToSql, Type};

/// Fields in the layout that Bind and COPY share: for each an i32 length, -1 for NULL, and that
/// many bytes (PostgreSQL manual, "Message Formats", Bind).
#[derive(Clone)]
pub(super) struct Params {
    fields: Bytes,
    count: usize,
}

impl Params {
    /// `fields` must hold `count` fields.
    pub(super) const fn new(fields: Bytes, count: usize) -> Self {
        Self { fields, count }
    }

    pub(super) const fn none() -> Self {
        Self { fields: Bytes::new(), count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn iter(&self) -> Fields<'_> {
        Fields { rest: &self.fields, left: self.count }
    }
}

/// Builds the parameters of control statements.
#[derive(Default)]
pub(super) struct ParamsBuilder {
    fields: BytesMut,
    count: usize,
}

impl ParamsBuilder {
    /// A parameter of type text.
    pub(super) fn text(self, value: &str) -> Self {
        self.field(Some(value.as_bytes()))
    }

    pub(super) fn optional_text(self, value: Option<&str>) -> Self {
        self.field(value.map(str::as_bytes))
    }

    /// A parameter of type int8.
    pub(super) fn int8(self, value: i64) -> Self {
        self.field(Some(&value.to_be_bytes()))
    }

    pub(super) fn optional_int8(self, value: Option<i64>) -> Self {
        match value {
            Some(value) => self.int8(value),
            None => self.field(None),
        }
    }

    /// A parameter of type bytea.
    pub(super) fn bytea(self, value: &[u8]) -> Self {
        self.field(Some(value))
    }

    pub(super) fn build(self) -> Params {
        Params::new(self.fields.freeze(), self.count)
    }

    fn field(mut self, value: Option<&[u8]>) -> Self {
        match value.map(|bytes| (i32::try_from(bytes.len()), bytes)) {
            None => self.fields.put_i32(-1),
            Some((Ok(length), bytes)) => {
                self.fields.put_i32(length);
                self.fields.extend_from_slice(bytes);
            }
            // Beyond what the protocol can say: a length that no reader accepts as a field.
            Some((Err(_), _)) => self.fields.put_i32(i32::MIN),
        }
        self.count += 1;
        self
    }
}

/// Walks encoded fields.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(fields: &'a [u8], count: usize) -> Self {
        Self { rest: fields, left: count }
    }

    /// What remains after the fields walked so far.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn split(&mut self) -> Field<'a> {
        let Some((length, rest)) = self.rest.split_first_chunk::<4>() else { return Field::Malformed };
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            self.rest = rest;
            return Field::Null;
        }
        match usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) {
            Some((value, rest)) => {
                self.rest = rest;
                Field::Value(value)
            }
            None => Field::Malformed,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.split())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// One encoded field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Null,
    Value(&'a [u8]),
    /// The bytes are not a field; sending it fails on this side of the connection.
    Malformed,
}

impl fmt::Debug for Field<'_> {
    /// Never the value: the driver prints parameters when debug logging is on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field")
    }
}

impl ToSql for Field<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Value(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            Self::Malformed => Err("a field's length disagrees with its bytes".into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(ty, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_parameters_are_walked_again() {
        let params = ParamsBuilder::default().text("ab").optional_text(None).int8(-2).text("").build();
        let fields: Vec<_> = params.iter().collect();
        let minus_two = (-2_i64).to_be_bytes();
        let expected = [Field::Value(b"ab"), Field::Null, Field::Value(&minus_two), Field::Value(b"")];
        assert!(fields == expected);
        assert_eq!(params.iter().len(), 4);
    }

    #[test]
    fn malformed_lengths_are_refused_instead_of_read() {
        for bytes in [&[0, 0, 0][..], &[0, 0, 0, 2, 1], &[0xff, 0xff, 0xff, 0xfe], &i32::MIN.to_be_bytes()] {
            let field = Fields::new(bytes, 1).next();
            assert!(field == Some(Field::Malformed), "{bytes:?}");
            assert!(Field::Malformed.to_sql(&Type::TEXT, &mut BytesMut::new()).is_err());
        }
    }

    #[test]
    fn debug_shows_no_value() {
        assert_eq!(format!("{:?}", Field::Value(b"secret")), "field");
    }
}
