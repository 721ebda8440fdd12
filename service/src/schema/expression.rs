//! Expressions of generated columns and of indexes whose value is the same on both servers, in
//! PostgreSQL's words.
//!
//! Taken are sums, differences and products of exact numbers, computed as numeric, which can't
//! overflow, and CONCAT of texts; for indexes that refuse nothing also LOWER and UPPER, whose values
//! may differ in rare characters. Not taken is anything else: division, whose scale is another,
//! functions of dates, which may be NULL on the target, and of JSON.

use super::default::unescape;
use super::render::{max_key_width, quote_ident, quote_literal};
use super::{Column, MysqlType, TableModel, TargetType};

/// Nesting that an expression may have: the server's own parser allows little more.
const DEPTH_MAX: usize = 64;

/// Bytes of a numeric that MySQL can compute from exact numbers: 65 digits, or two of 20 multiplied,
/// four digits in two bytes, and a header.
const NUMERIC_BYTES: u64 = 48;

/// An expression of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) sql: String,
    /// The most bytes that a value takes; `None` for no bound.
    pub(super) bytes: Option<u64>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
}

/// The expression on the target; `None` where its value is not exactly known. With `folds`, LOWER and
/// UPPER are taken too.
pub(super) fn translate(printed: &str, model: &TableModel, folds: bool) -> Option<Expression> {
    let text = unescape(printed)?;
    let mut parser = Parser { model, rest: text.trim_start(), depth: 0, folds };
    let expression = parser.sum()?;
    parser.rest.is_empty().then_some(expression)
}

struct Parser<'a> {
    model: &'a TableModel,
    rest: &'a str,
    depth: usize,
    folds: bool,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?.trim_start();
        Some(())
    }

    fn sum(&mut self) -> Option<Expression> {
        let mut left = self.product()?;
        loop {
            let operator = match self.rest.as_bytes().first() {
                Some(b'+') => "+",
                Some(b'-') => "-",
                _ => return Some(left),
            };
            self.eat(operator)?;
            left = arithmetic(&left, operator, &self.product()?)?;
        }
    }

    fn product(&mut self) -> Option<Expression> {
        let mut left = self.unary()?;
        while self.eat("*").is_some() {
            left = arithmetic(&left, "*", &self.unary()?)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let expression = if self.eat("-").is_some() {
            let inner = self.unary()?;
            (inner.kind == Kind::Number).then(|| number(format!("(- {})", inner.sql)))
        } else {
            self.primary()
        };
        self.depth -= 1;
        expression
    }

    fn primary(&mut self) -> Option<Expression> {
        match self.rest.chars().next()? {
            '(' => {
                self.eat("(")?;
                let inner = self.sum()?;
                self.eat(")")?;
                Some(inner)
            }
            '`' => self.column(),
            '_' => self.text(),
            first if first.is_ascii_digit() => self.constant(),
            _ => self.function(),
        }
    }

    fn column(&mut self) -> Option<Expression> {
        let (name, rest) = quoted(self.rest, '`')?;
        self.rest = rest.trim_start();
        // MySQL's column names know no case.
        let same = |column: &&Column| column.name.to_lowercase() == name.to_lowercase();
        let column = self.model.columns.iter().find(same)?;
        let sql = quote_ident(&column.name).ok()?;
        match column.target {
            TargetType::SmallInt | TargetType::Integer | TargetType::BigInt | TargetType::Numeric { .. }
                if column.mysql != MysqlType::Year =>
            {
                Some(number(format!("{sql}::numeric")))
            }
            TargetType::Varchar { .. } | TargetType::Text if column.is_text() => {
                Some(Expression { sql, bytes: max_key_width(&column.mysql), kind: Kind::Text })
            }
            _ => None,
        }
    }

    fn constant(&mut self) -> Option<Expression> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at_checked(end)?;
        // An exponent makes a number inexact, `x` one in another base.
        let is_exact = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !digits.ends_with('.')
            && digits.matches('.').count() <= 1;
        self.rest = rest.trim_start();
        is_exact.then(|| number(digits.to_owned()))
    }

    /// `_charset'…'`. `information_schema` shows the bytes of other characters than ASCII's each as one of
    /// latin1.
    fn text(&mut self) -> Option<Expression> {
        let (_, literal) = self.rest.split_once('\'')?;
        let introducer = self.rest.strip_suffix(literal)?.strip_suffix('\'')?;
        if !introducer.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return None;
        }
        let (end, _) = literal
            .char_indices()
            .scan(false, |escaped, (at, c)| {
                let ends = c == '\'' && !*escaped;
                *escaped = c == '\\' && !*escaped;
                Some((at, ends))
            })
            .find(|(_, ends)| *ends)?;
        let (text, rest) = literal.split_at_checked(end)?;
        let text = unescape(text)?;
        self.rest = rest.strip_prefix('\'')?.trim_start();
        let shown = text.is_ascii() && !text.contains(['?', '\0']);
        let bytes = Some(text.len() as u64);
        shown.then(|| Expression { sql: quote_literal(&text), bytes, kind: Kind::Text })
    }

    fn function(&mut self) -> Option<Expression> {
        let (name, _) = self.rest.split_once('(')?;
        let function = match name {
            "concat" => None,
            "lower" | "lcase" if self.folds => Some("lower"),
            "upper" | "ucase" if self.folds => Some("upper"),
            _ => return None,
        };
        self.rest = self.rest.strip_prefix(name)?;
        self.eat("(")?;
        let mut arguments = vec![self.argument()?];
        while self.eat(",").is_some() {
            arguments.push(self.argument()?);
        }
        self.eat(")")?;
        let sum = arguments.iter().map(|argument| argument.bytes).sum::<Option<u64>>();
        let Some(function) = function else {
            let list: Vec<&str> = arguments.iter().map(|argument| argument.sql.as_str()).collect();
            return Some(Expression {
                sql: format!("({})", list.join(" || ")),
                bytes: sum,
                kind: Kind::Text,
            });
        };
        let [argument] = &arguments[..] else { return None };
        // A letter's other case can be three letters.
        let bytes = sum.map(|bytes| bytes * 3);
        Some(Expression { sql: format!("{function}({})", argument.sql), bytes, kind: Kind::Text })
    }

    fn argument(&mut self) -> Option<Expression> {
        self.unary().filter(|argument| argument.kind == Kind::Text)
    }
}

fn number(sql: String) -> Expression {
    Expression { sql, bytes: Some(NUMERIC_BYTES), kind: Kind::Number }
}

fn arithmetic(left: &Expression, operator: &str, right: &Expression) -> Option<Expression> {
    let exact = left.kind == Kind::Number && right.kind == Kind::Number;
    exact.then(|| number(format!("({} {operator} {})", left.sql, right.sql)))
}

/// What stands between quotes at the beginning, doubled ones made single, and what follows.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    loop {
        let (at, c) = chars.next()?;
        if c != quote {
            name.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            name.push(quote);
        } else {
            return Some((name, text.get(at + quote.len_utf8()..)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TableName;
    use crate::schema::details::example_column;

    fn model() -> TableModel {
        let varchar = |length| MysqlType::Varchar { length, charset: "utf8mb4".to_owned() };
        let text = MysqlType::Text { charset: "utf8mb4".to_owned() };
        TableModel {
            name: TableName { database: "app".to_owned(), table: "t".to_owned() },
            columns: vec![
                example_column("n", MysqlType::Int { unsigned: false }, TargetType::Integer),
                example_column("d`x", MysqlType::Int { unsigned: false }, TargetType::BigInt),
                example_column("a", varchar(10), TargetType::Varchar { length: 10 }),
                example_column("long", text, TargetType::Text),
                example_column("f", MysqlType::Float { unsigned: false }, TargetType::Real),
                example_column("y", MysqlType::Year, TargetType::SmallInt),
                example_column("j", MysqlType::Json, TargetType::Jsonb),
            ],
            key: Vec::new(),
            key_is_primary: false,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
        }
    }

    fn sql(printed: &str, folds: bool) -> Option<String> {
        translate(printed, &model(), folds).map(|expression| expression.sql)
    }

    #[test]
    fn what_is_understood() {
        for (printed, expected) in [
            ("((`n` * 2) + 1)", r#"(("n"::numeric * 2) + 1)"#),
            ("(`N` - `d``x`)", r#"("n"::numeric - "d`x"::numeric)"#),
            ("(`n` * -(3))", r#"("n"::numeric * (- 3))"#),
            ("(`n` + 0.25)", r#"("n"::numeric + 0.25)"#),
            (r"concat(`a`,_utf8mb4\' \',`long`)", r#"("a" || ' ' || "long")"#),
            (r"concat(`a`,_latin1\'it\\\'s, \\\\\')", r#"("a" || E'it''s, \\')"#),
        ] {
            assert_eq!(sql(printed, false).as_deref(), Some(expected), "{printed}");
        }
        assert_eq!(sql("lower(`a`)", true).as_deref(), Some(r#"lower("a")"#));
    }

    #[test]
    fn what_is_not() {
        for printed in [
            "(`n` / 2)",
            "(`n` DIV 2)",
            "(`f` + 1)",
            "(`y` + 1)",
            "(`a` + 1)",
            "concat(`n`,`a`)",
            "lower(`a`)",
            "(`gone` + 1)",
            "(`n` + 1e3)",
            "(`n` + 0x10)",
            "`n` + ",
            "(`n` + 1",
            r"concat(`a`,_utf8mb4\'what?\')",
            r"concat(`a`,_utf8mb4\'open)",
            r"concat(`a`,_utf8mb4\'Ã¤\')",
            r"json_unquote(json_extract(`j`,_utf8mb4\'$.a\'))",
            "year(`y`)",
            "",
        ] {
            assert_eq!(sql(printed, false), None, "{printed}");
        }
        let deep = format!("{}`n`{}", "(".repeat(10_000), ")".repeat(10_000));
        assert_eq!(sql(&deep, false), None);
    }

    #[test]
    fn what_has_no_bound_says_so() {
        let bytes = |printed| translate(printed, &model(), true).and_then(|expression| expression.bytes);
        assert_eq!(bytes("(`n` * `n`)"), Some(NUMERIC_BYTES));
        assert_eq!(bytes("concat(`a`,`a`)"), Some(2 * (40 + 4)));
        assert_eq!(bytes("concat(`a`,`long`)"), None);
    }
}
