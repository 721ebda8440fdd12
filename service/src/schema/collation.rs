//! MySQL's collations as collations of the target.
//!
//! Row images carry the stored spelling, and by default texts on the target are compared by their
//! bytes: nothing that MySQL tells apart is ever one there. With `schema.collation = "mysql"` a column
//! has a nondeterministic ICU collation instead, for the application that moves: it takes for equal
//! what differs in case or accents as MySQL's does. Rows are still found by bytes.
//!
//! The strength is in the name's end (MySQL manual, "Collation Naming Conventions"), the language in
//! the words before. Level 1 compares letters, 2 their accents too, 3 their case too, 4 kana too (UTS
//! #35 part 5, "Collation Settings"; UTS #10). `_bin` and `binary` compare bytes, and so does the
//! target for them.

use serde::{Deserialize, Serialize};

use super::{Column, MysqlType, TableModel};

/// How the configuration wants the texts of a column compared on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CollationChoice {
    /// By their bytes.
    #[default]
    Bytes,
    /// As MySQL does, as far as ICU can.
    Mysql,
}

impl CollationChoice {
    pub const NAMES: &'static [&'static str] = &["bytes", "mysql"];

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "bytes" => Some(Self::Bytes),
            "mysql" => Some(Self::Mysql),
            _ => None,
        }
    }
}

/// A nondeterministic ICU collation of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetCollation {
    /// MySQL's name, and the target's in the schema of the table.
    pub name: String,
    /// BCP 47, as `und-u-ks-level1`.
    pub locale: String,
}

/// How MySQL's equality differs from that of the ICU collation that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Likeness {
    /// MySQL pads with blanks: those at a text's end do not count, and on the target they do.
    pub pads: bool,
    /// Both go by the Unicode Collation Algorithm, MySQL by its version 9: they differ in characters
    /// that are newer. Else they agree in ASCII letters and digits for certain.
    pub follows_unicode: bool,
}

/// Languages of MySQL's collations as ICU names them. What is not here is compared as in the root.
const LANGUAGES: &[(&str, &str)] = &[
    ("bg", "bg"),
    ("bs", "bs"),
    ("croatian", "hr"),
    ("cs", "cs"),
    ("czech", "cs"),
    ("da", "da"),
    ("danish", "da"),
    ("de_pb", "de-u-co-phonebk"),
    ("eo", "eo"),
    ("es", "es"),
    ("es_trad", "es-u-co-trad"),
    ("esperanto", "eo"),
    ("estonian", "et"),
    ("et", "et"),
    ("german2", "de-u-co-phonebk"),
    ("gl", "gl"),
    ("hr", "hr"),
    ("hu", "hu"),
    ("hungarian", "hu"),
    ("icelandic", "is"),
    ("is", "is"),
    ("ja", "ja"),
    ("japanese", "ja"),
    ("la", "la"),
    ("latvian", "lv"),
    ("lithuanian", "lt"),
    ("lt", "lt"),
    ("lv", "lv"),
    ("mn_cyrl", "mn"),
    ("nb", "nb"),
    ("nn", "nn"),
    ("pl", "pl"),
    ("polish", "pl"),
    ("ro", "ro"),
    ("romanian", "ro"),
    ("ru", "ru"),
    ("sinhala", "si"),
    ("sk", "sk"),
    ("sl", "sl"),
    ("slovak", "sk"),
    ("slovenian", "sl"),
    ("spanish", "es"),
    ("spanish2", "es-u-co-trad"),
    ("sr_latn", "sr-Latn"),
    ("sv", "sv"),
    ("swedish", "sv"),
    ("tr", "tr"),
    ("turkish", "tr"),
    ("vi", "vi"),
    ("vietnamese", "vi"),
    ("zh", "zh"),
];

/// Collations that tell accents apart where their names don't say so. Found by comparing, for every
/// character of the set, MySQL's weights with the equality of ICU 72.
const TELLING_ACCENTS: &[&str] = &[
    "big5_chinese_ci",
    "cp1251_general_ci",
    "cp1251_ukrainian_ci",
    "cp1256_general_ci",
    "cp850_general_ci",
    "cp866_general_ci",
    "cp932_japanese_ci",
    "eucjpms_japanese_ci",
    "euckr_korean_ci",
    "gb18030_chinese_ci",
    "gb2312_chinese_ci",
    "gbk_chinese_ci",
    "hp8_english_ci",
    "koi8r_general_ci",
    "koi8u_general_ci",
    "latin1_general_ci",
    "latin7_general_ci",
    "sjis_japanese_ci",
    "tis620_thai_ci",
    "ujis_japanese_ci",
];

impl TargetCollation {
    /// The one that stands for MySQL's; `None` where that compares bytes.
    #[must_use]
    pub fn of(mysql: &str) -> Option<Self> {
        let (_, rest) = mysql.split_once('_')?;
        let (words, level) =
            [("_ai_ci", 1), ("_as_ci", 2), ("_as_cs_ks", 4), ("_as_cs", 3), ("_cs", 3), ("_ci", 1)]
                .into_iter()
                .find_map(|(suffix, level)| Some((rest.strip_suffix(suffix)?, level)))?;
        let language = words.strip_suffix("_0900").unwrap_or(words);
        let known = LANGUAGES.iter().find(|(mysql, _)| *mysql == language).map_or("und", |(_, icu)| icu);
        let level = if TELLING_ACCENTS.contains(&mysql) { 2 } else { level };
        let extension = if known.contains("-u-") { "" } else { "-u" };
        Some(Self { name: mysql.to_owned(), locale: format!("{known}{extension}-ks-level{level}") })
    }

    #[must_use]
    pub fn likeness(&self) -> Likeness {
        // Every collation of Unicode 9 is NO PAD, and no other is but `binary`
        // (`information_schema.COLLATIONS.PAD_ATTRIBUTE`).
        let follows_unicode = self.name.contains("_0900_");
        Likeness { pads: !follows_unicode, follows_unicode }
    }
}

/// The collation of a column of this type and MySQL collation, if the choice gives it one.
#[must_use]
pub fn of_column(
    choice: CollationChoice,
    mysql: &MysqlType,
    collation: Option<&str>,
) -> Option<TargetCollation> {
    match choice {
        CollationChoice::Mysql if mysql.is_text() => collation.and_then(TargetCollation::of),
        _ => None,
    }
}

/// What a user of the column should know.
#[must_use]
pub(super) fn note(collation: &TargetCollation) -> String {
    let TargetCollation { name, locale } = collation;
    let Likeness { pads, follows_unicode } = collation.likeness();
    let mut text = format!(
        "compares as {name} does, by the ICU collation {locale}: LIKE, ~ and the like need COLLATE \"C\" before \
         PostgreSQL 18 and find no index, and comparisons take longer"
    );
    if pads {
        text.push_str("; blanks at the end count on the target, which they do not on the source");
    }
    if !follows_unicode {
        text.push_str("; beyond ASCII the two are much alike and not the same");
    }
    text
}

/// Whether the target compares a column of the key otherwise than by bytes: rows are then found by an
/// index of their own.
#[must_use]
pub fn has_collated_key(model: &TableModel) -> bool {
    model.key.iter().filter_map(|&at| model.columns.get(at)).any(is_collated)
}

/// Whether the target compares the column otherwise than by bytes.
#[must_use]
pub const fn is_collated(column: &Column) -> bool {
    column.details.target_collation.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locale(mysql: &str) -> Option<String> {
        TargetCollation::of(mysql).map(|collation| collation.locale)
    }

    #[test]
    fn strength_and_language_are_in_the_name() {
        for (mysql, icu) in [
            ("utf8mb4_0900_ai_ci", "und-u-ks-level1"),
            ("utf8mb4_0900_as_ci", "und-u-ks-level2"),
            ("utf8mb4_0900_as_cs", "und-u-ks-level3"),
            ("utf8mb4_ja_0900_as_cs", "ja-u-ks-level3"),
            ("utf8mb4_ja_0900_as_cs_ks", "ja-u-ks-level4"),
            ("utf8mb4_sv_0900_ai_ci", "sv-u-ks-level1"),
            ("utf8mb4_de_pb_0900_as_cs", "de-u-co-phonebk-ks-level3"),
            ("utf8mb4_es_trad_0900_ai_ci", "es-u-co-trad-ks-level1"),
            ("utf8mb4_general_ci", "und-u-ks-level1"),
            ("utf8mb4_unicode_520_ci", "und-u-ks-level1"),
            ("utf8mb3_general_mysql500_ci", "und-u-ks-level1"),
            ("latin1_swedish_ci", "sv-u-ks-level1"),
            ("latin1_general_ci", "und-u-ks-level2"),
            ("latin1_general_cs", "und-u-ks-level3"),
            ("latin2_czech_cs", "cs-u-ks-level3"),
            ("utf8mb3_spanish2_ci", "es-u-co-trad-ks-level1"),
        ] {
            assert_eq!(locale(mysql).as_deref(), Some(icu), "{mysql}");
        }
        for bytes in ["utf8mb4_bin", "utf8mb4_0900_bin", "latin1_bin", "binary", "", "sjis"] {
            assert_eq!(locale(bytes), None, "{bytes}");
        }
    }

    #[test]
    fn only_texts_have_a_collation_and_only_where_it_is_chosen() {
        let varchar = MysqlType::Varchar { length: 1, charset: "utf8mb4".to_owned() };
        let name = Some("utf8mb4_0900_ai_ci");
        assert!(of_column(CollationChoice::Mysql, &varchar, name).is_some());
        assert_eq!(of_column(CollationChoice::Bytes, &varchar, name), None);
        assert_eq!(of_column(CollationChoice::Mysql, &varchar, None), None);
        let labels = MysqlType::Enum { labels: vec!["a".to_owned()] };
        assert_eq!(of_column(CollationChoice::Mysql, &labels, name), None);
    }

    #[test]
    fn what_is_not_the_same_is_told() {
        let told = |name: &str| note(&TargetCollation::of(name).unwrap());
        assert!(!told("utf8mb4_0900_ai_ci").contains("blanks"));
        assert!(told("utf8mb4_general_ci").contains("blanks"));
        assert!(told("latin1_swedish_ci").contains("beyond ASCII"));
    }
}
