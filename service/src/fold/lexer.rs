//! A tolerant lexer for the text of QUERY events, after the server's own (server source
//! `sql/sql_lex.cc`, `lex_one_token`; MySQL manual, "Comments", "Schema Object Names",
//! "String Literals"). Allocates nothing but the values of string literals that are asked for.

use super::charset::ClientCharset;

/// `MODE_ANSI_QUOTES` of `sql_mode`: a double quote quotes identifiers.
const ANSI_QUOTES: u64 = 1 << 2;
/// `MODE_NO_BACKSLASH_ESCAPES` of `sql_mode`: a backslash is an ordinary character.
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// The text cannot be told into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unlexable;

/// A token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An unquoted word: keyword, identifier or number.
    Word(&'a [u8]),
    /// What stands between identifier quotes; a doubled quote is still doubled.
    Quoted(&'a [u8], u8),
    /// What stands between the quotes of a string literal, escapes and all.
    Text(&'a [u8], u8),
    Symbol(u8),
}

impl Token<'_> {
    /// Whether the token is this keyword; a quoted name never is one.
    pub(super) const fn is(self, keyword: &str) -> bool {
        match self {
            Self::Word(word) => word.eq_ignore_ascii_case(keyword.as_bytes()),
            Self::Quoted(..) | Self::Text(..) | Self::Symbol(_) => false,
        }
    }
}

/// Reads tokens from a statement's text. Cloning it is looking ahead.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    rest: &'a [u8],
    /// Inside `/*! … */`, whose content the source has executed: it is code.
    in_version_comment: bool,
    /// `None`: the event does not say.
    sql_mode: Option<u64>,
    charset: ClientCharset,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(
        text: &'a [u8],
        sql_mode: Option<u64>,
        charset: ClientCharset,
    ) -> Result<Self, Unlexable> {
        if charset == ClientCharset::Unknown && !text.is_ascii() {
            return Err(Unlexable);
        }
        Ok(Self { rest: text, in_version_comment: false, sql_mode, charset })
    }

    /// The next token, or `None` at the end of the statement.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, Unlexable> {
        self.skip_blanks_and_comments()?;
        let Some(&first) = self.rest.first() else {
            return if self.in_version_comment { Err(Unlexable) } else { Ok(None) };
        };
        let token = match first {
            b'`' => self.quoted(b'`')?,
            b'"' if self.mode_has(ANSI_QUOTES)? => self.quoted(b'"')?,
            b'"' | b'\'' => self.string(first)?,
            _ if self.is_word(first) => self.word()?,
            _ => {
                self.skip(1);
                Token::Symbol(first)
            }
        };
        Ok(Some(token))
    }

    fn mode_has(&self, flag: u64) -> Result<bool, Unlexable> {
        self.sql_mode.map(|mode| mode & flag != 0).ok_or(Unlexable)
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn skip_blanks_and_comments(&mut self) -> Result<(), Unlexable> {
        loop {
            match self.rest {
                [b' ' | b'\t'..=b'\r', ..] => self.skip(1),
                [0xa0, ..] if self.charset == ClientCharset::Latin1 => self.skip(1),
                [b'#', ..] | [b'-', b'-'] => self.skip_line(),
                [b'-', b'-', next, ..] if *next == b' ' || next.is_ascii_control() => self.skip_line(),
                [b'/', b'*', b'!', ..] => self.open_version_comment(),
                [b'/', b'*', ..] => self.skip_comment()?,
                [b'*', b'/', ..] if self.in_version_comment => {
                    self.in_version_comment = false;
                    self.skip(2);
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let length = self.rest.iter().position(|c| *c == b'\n').unwrap_or(self.rest.len());
        self.skip(length);
    }

    fn skip_comment(&mut self) -> Result<(), Unlexable> {
        self.skip(2);
        let end = self.rest.windows(2).position(|pair| pair == b"*/").ok_or(Unlexable)?;
        self.skip(end + 2);
        Ok(())
    }

    /// `/*!`, or with a version of five or six digits. The source takes the exclamation mark out
    /// of those that it did not execute before it logs the statement, so all that are left were.
    fn open_version_comment(&mut self) {
        self.skip(3);
        self.in_version_comment = true;
        let digits = self.rest.iter().take(6).take_while(|c| c.is_ascii_digit()).count();
        if digits >= 5 {
            self.skip(digits);
        }
    }

    /// Outside UTF-8 and latin1 a word beyond ASCII is refused: which of its bytes are blanks to
    /// the server is not known here.
    fn word(&mut self) -> Result<Token<'a>, Unlexable> {
        let length = self.rest.iter().position(|c| !self.is_word(*c)).unwrap_or(self.rest.len());
        let word = self.take(length);
        let known = matches!(self.charset, ClientCharset::Utf8 | ClientCharset::Latin1);
        if known || word.is_ascii() { Ok(Token::Word(word)) } else { Err(Unlexable) }
    }

    /// Bytes of unquoted identifiers (MySQL manual, "Schema Object Names"): ASCII letters, digits,
    /// dollar, underscore, and everything outside ASCII but latin1's no-break space, a blank.
    fn is_word(&self, byte: u8) -> bool {
        match byte {
            b'$' | b'_' => true,
            0xa0 => self.charset != ClientCharset::Latin1,
            0x80.. => true,
            _ => byte.is_ascii_alphanumeric(),
        }
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        head
    }

    fn quoted(&mut self, quote: u8) -> Result<Token<'a>, Unlexable> {
        self.skip(1);
        let length = self.closing_quote(quote, false)?;
        let name = self.take(length);
        self.skip(1);
        if name.is_empty() { Err(Unlexable) } else { Ok(Token::Quoted(name, quote)) }
    }

    fn string(&mut self, quote: u8) -> Result<Token<'a>, Unlexable> {
        self.skip(1);
        let length = self.closing_quote(quote, true)?;
        let text = self.take(length);
        self.skip(1);
        Ok(Token::Text(text, quote))
    }

    /// A number without a sign, if one comes next: digits, a fraction, an exponent.
    pub(super) fn number(&mut self) -> Result<Option<&'a [u8]>, Unlexable> {
        self.skip_blanks_and_comments()?;
        let digits =
            |from: usize| self.rest.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let at = |index: usize| self.rest.get(index).copied();
        let whole = digits(0);
        let mut length = whole;
        if at(length) == Some(b'.') {
            length += 1 + digits(length + 1);
        }
        if whole == 0 && length < 2 {
            return Ok(None);
        }
        if matches!(at(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(at(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length + 1 + sign);
            if exponent > 0 {
                length += 1 + sign + exponent;
            }
        }
        if at(length).is_some_and(|byte| self.is_word(byte)) {
            return Ok(None);
        }
        Ok(Some(self.take(length)))
    }

    /// The bytes that a string literal stands for (MySQL manual, "String Literals"; server source
    /// `sql/sql_lex.cc`, `get_text`).
    pub(super) fn unescape(&self, text: &[u8], quote: u8) -> Result<Vec<u8>, Unlexable> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((&first, tail)) = rest.split_first() {
            let taken = match (first, tail.first()) {
                (b'\\', Some(&next)) if !self.mode_has(NO_BACKSLASH_ESCAPES)? => {
                    out.extend_from_slice(escaped(next).as_slice());
                    2
                }
                (_, Some(&next)) if first == quote && next == quote => {
                    out.push(quote);
                    2
                }
                _ => {
                    let length = self.charset.character_length(rest);
                    out.extend_from_slice(rest.get(..length).ok_or(Unlexable)?);
                    length
                }
            };
            rest = rest.get(taken..).ok_or(Unlexable)?;
        }
        Ok(out)
    }

    /// Offset of the quote that closes what `rest` starts in; a doubled quote does not.
    fn closing_quote(&self, quote: u8, escapes: bool) -> Result<usize, Unlexable> {
        let mut at = 0;
        loop {
            let rest = self.rest.get(at..).unwrap_or_default();
            match rest {
                [] => return Err(Unlexable),
                [b'\\', ..] if escapes && !self.mode_has(NO_BACKSLASH_ESCAPES)? => {
                    // The server takes one byte, whatever character it begins.
                    at += 2;
                }
                [c, next, ..] if *c == quote && *next == quote => at += 2,
                [c, ..] if *c == quote => return Ok(at),
                _ => at += self.charset.character_length(rest),
            }
        }
    }
}

/// What a backslash and this byte stand for. Patterns' wildcards keep their backslash.
fn escaped(byte: u8) -> Vec<u8> {
    match byte {
        b'0' => vec![0],
        b'b' => vec![8],
        b'n' => vec![b'\n'],
        b'r' => vec![b'\r'],
        b't' => vec![b'\t'],
        b'Z' => vec![26],
        b'%' | b'_' => vec![b'\\', byte],
        other => vec![other],
    }
}
