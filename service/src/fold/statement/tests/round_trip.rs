//! Random operations in random spelling are read as what they are.

use proptest::prelude::*;

use super::super::*;
use super::{UTF8MB4, context};
use crate::schema::ddl::{
    ColumnAction, ColumnDefinition, DataType, DefaultValue, IndexDefinition, InlineKey, KeyPart, Literal,
    Position, TypeName,
};

/// A random source for spelling: each call takes the next of the numbers.
struct Spelling<'a> {
    numbers: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Spelling<'_> {
    fn pick<'b>(&mut self, of: &[&'b str]) -> &'b str {
        of[usize::from(*self.numbers.next().unwrap()) % of.len()]
    }

    /// A gap that separates tokens.
    fn gap(&mut self) -> &'static str {
        self.pick(&[
            " ",
            "\n",
            "\t ",
            "/**/",
            " /* rename to x, */ ",
            " -- drop y\n",
            "# '\n",
            " /*!50000*/ ",
            "/*!*/",
        ])
    }

    fn keyword(&mut self, words: &str) -> String {
        let words: Vec<String> = words
            .split(' ')
            .map(|word| match self.pick(&["u", "l", "m"]) {
                "u" => word.to_uppercase(),
                "l" => word.to_lowercase(),
                _ => word
                    .char_indices()
                    .map(|(at, c)| if at % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
                    .collect(),
            })
            .collect();
        words.join(self.gap())
    }

    fn name(&mut self, name: &str) -> String {
        let plain = name.bytes().all(|byte| byte.is_ascii_lowercase()) && name.starts_with('c');
        if plain && self.pick(&["bare", "quoted"]) == "bare" {
            name.to_owned()
        } else {
            format!("`{}`", name.replace('`', "``"))
        }
    }

    fn string(&mut self, text: &str) -> String {
        let quote = self.pick(&["'", "\""]);
        let backslash = self.pick(&["backslash", "double"]) == "backslash";
        let quoted = text.replace('\\', "\\\\");
        let quoted = if backslash {
            quoted.replace(quote, &format!("\\{quote}"))
        } else {
            quoted.replace(quote, &quote.repeat(2))
        };
        format!("{quote}{quoted}{quote}")
    }

    fn literal(&mut self, literal: &Literal) -> String {
        match literal {
            Literal::Null => self.keyword("null"),
            Literal::Text(text) => self.string(text),
            Literal::Number(text) => text.clone(),
            Literal::Bytes(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                if self.pick(&["x", "0x"]) == "x" { format!("X'{digits}'") } else { format!("0x{digits}") }
            }
            Literal::Boolean(true) => self.keyword("true"),
            Literal::Boolean(false) => self.keyword("false"),
            Literal::Bits(_) | Literal::Temporal(_) | Literal::Opaque => unreachable!("not generated"),
        }
    }

    fn default(&mut self, value: &DefaultValue) -> String {
        match value {
            DefaultValue::Literal(literal) => self.literal(literal),
            DefaultValue::Now(0) => {
                self.pick(&["now()", "CURRENT_TIMESTAMP", "localtime()", "LocalTimestamp"]).to_owned()
            }
            DefaultValue::Now(digits) => format!("{}({digits})", self.pick(&["now", "CURRENT_TIMESTAMP"])),
            DefaultValue::Expression => "(concat(')', `a`, (1)))".to_owned(),
        }
    }

    fn data_type(&mut self, data_type: &DataType) -> String {
        let names: &[&str] = match data_type.name {
            TypeName::TinyInt => &["tinyint", "INT1"],
            TypeName::Int => &["int", "INTEGER", "int4"],
            TypeName::BigInt => &["bigint", "INT8"],
            TypeName::Decimal => &["decimal", "DEC", "numeric", "fixed"],
            TypeName::Double => &["double", "double precision", "float8"],
            TypeName::Varchar => &["varchar", "character varying", "CHAR VARYING"],
            TypeName::Text => &["text"],
            TypeName::Enum => &["enum"],
            TypeName::DateTime => &["datetime"],
            other => unreachable!("{other:?} is not generated"),
        };
        let mut text = self.pick(names).to_owned();
        match (data_type.length, data_type.scale) {
            (Some(length), Some(scale)) => text += &format!("({length},{}{scale})", self.gap()),
            (Some(length), None) => text += &format!("{}({length})", self.gap()),
            _ => {}
        }
        if !data_type.labels.is_empty() {
            let labels: Vec<String> = data_type.labels.iter().map(|label| self.literal(label)).collect();
            text += &format!("({})", labels.join(","));
        }
        if data_type.unsigned {
            text += self.gap();
            text += self.pick(&["UNSIGNED", "unsigned zerofill", "zerofill"]);
        }
        text
    }

    fn column(&mut self, column: &ColumnDefinition) -> String {
        let mut attributes = Vec::new();
        if let Some(nullable) = column.nullable {
            attributes.push(self.keyword(if nullable { "null" } else { "not null" }));
        }
        if let Some(default) = &column.default {
            attributes.push(format!("{}{}{}", self.keyword("default"), self.gap(), self.default(default)));
        }
        if column.key.unique {
            attributes.push(self.pick(&["unique", "UNIQUE KEY"]).to_owned());
        }
        if let Some(comment) = &column.comment {
            attributes.push(format!("comment{}{}", self.gap(), self.literal(comment)));
        }
        if !column.visible {
            attributes.push(self.keyword("invisible"));
        }
        let turn = usize::from(*self.numbers.next().unwrap()) % (attributes.len() + 1);
        attributes.rotate_left(turn);
        let mut words = vec![self.name(&column.name), self.data_type(&column.data_type)];
        words.extend(attributes);
        words.join(self.gap())
    }

    fn position(&mut self, position: &Position) -> String {
        match position {
            Position::Unstated => String::new(),
            Position::First => format!("{}{}", self.gap(), self.keyword("first")),
            Position::After(name) => {
                format!("{}{}{}{}", self.gap(), self.keyword("after"), self.gap(), self.name(name))
            }
        }
    }

    fn operation(&mut self, operation: &AlterOperation) -> String {
        let column = if self.pick(&["with", "without"]) == "with" { "column" } else { "" };
        let words = match operation {
            AlterOperation::AddColumn { definition, position } => {
                vec![
                    self.keyword("add"),
                    column.to_owned(),
                    self.column(definition) + &self.position(position),
                ]
            }
            AlterOperation::DropColumn { name } => {
                vec![
                    self.keyword("drop"),
                    column.to_owned(),
                    self.name(name),
                    self.pick(&["", "cascade"]).to_owned(),
                ]
            }
            AlterOperation::ChangeColumn { old, definition, position } => {
                let renames = *old != definition.name || self.pick(&["change", "modify"]) == "change";
                let mut words =
                    vec![self.keyword(if renames { "change" } else { "modify" }), column.to_owned()];
                words.extend(renames.then(|| self.name(old)));
                words.push(self.column(definition) + &self.position(position));
                words
            }
            AlterOperation::RenameColumn { from, to } => {
                vec![self.keyword("rename column"), self.name(from), self.keyword("to"), self.name(to)]
            }
            AlterOperation::AlterColumn { name, action } => {
                let ColumnAction::SetDefault(value) = action else { unreachable!("not generated") };
                vec![
                    self.keyword("alter"),
                    column.to_owned(),
                    self.name(name),
                    self.keyword("set default"),
                    self.default(value),
                ]
            }
            AlterOperation::AddIndex(index) => {
                let parts: Vec<String> = index
                    .parts
                    .iter()
                    .map(|part| match part {
                        KeyPart::Column { name, prefix, descending } => {
                            let prefix = prefix.map_or_else(String::new, |prefix| format!("({prefix})"));
                            format!(
                                "{}{prefix}{}",
                                self.name(name),
                                if *descending { " DESC" } else { self.pick(&["", " asc"]) }
                            )
                        }
                        KeyPart::Expression => "((a) + 1)".to_owned(),
                    })
                    .collect();
                let kind = match index.kind {
                    IndexKind::Unique => self.pick(&["unique", "UNIQUE INDEX", "unique key"]),
                    _ => self.pick(&["index", "KEY"]),
                };
                let name = index.name.as_ref().map_or_else(String::new, |name| self.name(name));
                vec![self.keyword("add"), kind.to_owned(), name, format!("({})", parts.join(","))]
            }
            AlterOperation::Force => vec![self.keyword("force")],
            other => unreachable!("{other:?} is not generated"),
        };
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        words.join(self.gap())
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "c[a-z]{1,5}x",
        2 => "[^\\x00/*#-]{1,8}",
        1 => Just("rename".to_owned()),
        1 => Just("a`b".to_owned()),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Boolean),
        "[^\\x00]{0,8}".prop_map(Literal::Text),
        "-?[0-9]{1,6}(\\.[0-9]{1,3})?(e-?[0-9])?".prop_map(Literal::Number),
        prop::collection::vec(any::<u8>(), 1..4).prop_map(Literal::Bytes),
    ]
}

fn default() -> impl Strategy<Value = DefaultValue> {
    prop_oneof![
        4 => literal().prop_map(DefaultValue::Literal),
        1 => (0u8..=6).prop_map(DefaultValue::Now),
        1 => Just(DefaultValue::Expression),
    ]
}

fn data_type() -> impl Strategy<Value = DataType> {
    let plain = |name| DataType {
        name,
        length: None,
        scale: None,
        unsigned: false,
        charset: crate::schema::ddl::CharsetClause::default(),
        labels: Vec::new(),
        srid: None,
    };
    let label = "[^\\x00]{0,5}[^\\x00 ]".prop_map(Literal::Text);
    prop_oneof![
        (
            prop::sample::select(vec![TypeName::TinyInt, TypeName::Int, TypeName::BigInt]),
            any::<bool>(),
            prop::option::of(1u64..20)
        )
            .prop_map(move |(name, unsigned, length)| DataType { unsigned, length, ..plain(name) }),
        (1u64..65, prop::option::of(0u64..5)).prop_map(move |(length, scale)| DataType {
            length: Some(length),
            scale,
            ..plain(TypeName::Decimal)
        }),
        Just(plain(TypeName::Double)),
        Just(plain(TypeName::Text)),
        (0u64..9999).prop_map(move |length| DataType { length: Some(length), ..plain(TypeName::Varchar) }),
        (0u64..=6).prop_map(move |length| DataType { length: Some(length), ..plain(TypeName::DateTime) }),
        prop::collection::vec(label, 1..4)
            .prop_map(move |labels| DataType { labels, ..plain(TypeName::Enum) }),
    ]
}

fn column() -> impl Strategy<Value = ColumnDefinition> {
    let comment = prop::option::of("[^\\x00]{0,8}".prop_map(Literal::Text));
    (
        name(),
        data_type(),
        prop::option::of(any::<bool>()),
        prop::option::of(default()),
        any::<bool>(),
        any::<bool>(),
        comment,
    )
        .prop_map(|(name, data_type, nullable, default, unique, visible, comment)| ColumnDefinition {
            name,
            data_type,
            nullable,
            default,
            on_update_now: None,
            auto_increment: false,
            key: InlineKey { primary: false, unique },
            comment,
            generated: None,
            visible,
            references: None,
            checks: Vec::new(),
        })
}

fn position() -> impl Strategy<Value = Position> {
    prop_oneof![Just(Position::Unstated), Just(Position::First), name().prop_map(Position::After)]
}

fn index() -> impl Strategy<Value = IndexDefinition> {
    let part = prop_oneof![
        4 => (name(), prop::option::of(1u64..99), any::<bool>()).prop_map(|(name, prefix, descending)| KeyPart::Column { name, prefix, descending }),
        1 => Just(KeyPart::Expression),
    ];
    (any::<bool>(), prop::option::of(name()), prop::collection::vec(part, 1..4)).prop_map(
        |(unique, name, parts)| {
            let kind = if unique { IndexKind::Unique } else { IndexKind::Plain };
            IndexDefinition { kind, name, parts, visible: true }
        },
    )
}

fn operation() -> impl Strategy<Value = AlterOperation> {
    prop_oneof![
        4 => (column(), position()).prop_map(|(definition, position)| AlterOperation::AddColumn { definition, position }),
        1 => name().prop_map(|name| AlterOperation::DropColumn { name }),
        3 => (name(), column(), position()).prop_map(|(old, definition, position)| AlterOperation::ChangeColumn { old, definition, position }),
        1 => (column(), position()).prop_map(|(definition, position)| AlterOperation::ChangeColumn { old: definition.name.clone(), definition, position }),
        1 => (name(), name()).prop_map(|(from, to)| AlterOperation::RenameColumn { from, to }),
        1 => (name(), default()).prop_map(|(name, value)| AlterOperation::AlterColumn { name, action: ColumnAction::SetDefault(value) }),
        1 => index().prop_map(AlterOperation::AddIndex),
        1 => Just(AlterOperation::Force),
    ]
}

proptest! {
    #[test]
    fn operations_are_read_in_any_spelling(
        operations in prop::collection::vec(operation(), 1..5),
        numbers in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut spelling = Spelling { numbers: numbers.iter().cycle() };
        let spelled: Vec<String> = operations.iter().map(|operation| spelling.operation(operation)).collect();
        let comma = format!("{},{}", spelling.gap(), spelling.gap());
        let text = format!("alter table t {}", spelled.join(&comma));
        let read = classify(text.as_bytes(), &context(UTF8MB4, 0));
        let Ok(Statement::Ddl(Ddl { content: Content::Alter(read), .. })) = read else {
            return Err(TestCaseError::fail(format!("not read: {text}")));
        };
        prop_assert_eq!(
            read.iter().map(super::describe::operation).collect::<Vec<_>>(),
            operations.iter().map(super::describe::operation).collect::<Vec<_>>(),
            "{}", text
        );
    }
}
