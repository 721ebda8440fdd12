//! Indexes of the source as indexes of the target.
//!
//! An entry of a PostgreSQL B-tree has at most 2,704 bytes, and a row with a larger one is refused.
//! A replicated row must not be, so that an index whose entries could grow beyond is made otherwise:
//!
//! | source | target |
//! |---|---|
//! | a prefix, and the whole column fits | the whole column; in a unique index `left(column, n)` |
//! | a prefix, and the whole column does not fit | `left(column, n)`, for bytes `substr(column, 1, n)` |
//! | columns that do not fit together | the leading ones that do |
//! | a first column that does not fit | a hash index on it: equality only |
//! | a unique index that does not fit | an index as above: the target does not enforce uniqueness |
//! | FULLTEXT over VARCHAR and CHAR | GIN over `to_tsvector('simple', …)` |
//! | expressions of [`super::expression`] | the same, under the rules above |
//! | SPATIAL over a column that is PostGIS's geometry | GiST |
//! | FULLTEXT over TEXT, SPATIAL over bytea, other expressions, invisible indexes | nothing |

use super::details::{Index, IndexKind, IndexPart};
use super::expression;
use super::objects::Note;
use super::render::{INDEX_ENTRY_HEADER_BYTES, MAX_KEY_BYTES, labels_differ, max_key_width, quote_ident};
use super::{Column, MysqlType, TableModel, TargetType};
use crate::halt::Halt;

/// Characters up to which a text's `tsvector` stays far below its limit of 1 MB, whatever is in it.
const FULLTEXT_CHARS_MAX: u64 = 20_000;

/// An index of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetIndex {
    pub(super) unique: bool,
    /// The access method and what is indexed, from `USING` on.
    pub(super) definition: String,
    /// The columns, where the index is over whole columns in ascending order.
    pub(super) columns: Option<Vec<String>>,
}

/// The index, unless nothing like it is made, and what a user of it should know.
pub(super) fn target_index(
    model: &TableModel,
    index: &Index,
) -> Result<(Option<TargetIndex>, Vec<Note>), Halt> {
    let subject = format!("index `{}`", index.name);
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(Note::new(&subject, text));
    let made = match index.kind {
        IndexKind::Spatial => spatial(model, index, &mut note)?,
        IndexKind::Fulltext => fulltext(model, index, &mut note)?,
        IndexKind::Ordered => ordered(model, index, &mut note)?,
    };
    Ok((made, notes))
}

type Parts<'a> = Vec<(&'a IndexPart, &'a Column)>;

/// Parts with their columns; `None` where one is an expression.
fn parts<'a>(model: &'a TableModel, index: &'a Index) -> Option<Parts<'a>> {
    let column =
        |part: &IndexPart| model.columns.iter().find(|column| part.column.as_ref() == Some(&column.name));
    index.parts.iter().map(|part| column(part).map(|column| (part, column))).collect()
}

/// MySQL's optimizer takes one for reference systems that the column is restricted to, PostGIS for all.
fn spatial(
    model: &TableModel,
    index: &Index,
    note: &mut impl FnMut(String),
) -> Result<Option<TargetIndex>, Halt> {
    let parts = parts(model, index).unwrap_or_default();
    let [(_, column)] = parts.as_slice() else {
        note("not created: it is not over one column".to_owned());
        return Ok(None);
    };
    if !matches!(column.target, TargetType::Geometry { .. }) {
        note(format!("not created: bytea, as which `{}` is kept, has no spatial index", column.name));
        return Ok(None);
    }
    if !index.visible {
        note("not created: PostgreSQL has no invisible indexes".to_owned());
        return Ok(None);
    }
    let definition = format!("USING gist ({})", quote_ident(&column.name)?);
    Ok(Some(TargetIndex { unique: false, definition, columns: None }))
}

fn fulltext(
    model: &TableModel,
    index: &Index,
    note: &mut impl FnMut(String),
) -> Result<Option<TargetIndex>, Halt> {
    let Some(parts) = parts(model, index) else {
        note("not created: a part of it is an expression".to_owned());
        return Ok(None);
    };
    let mut chars = 0_u64;
    let mut texts = Vec::new();
    for (_, column) in parts {
        chars += match column.mysql {
            MysqlType::Char { length, .. } | MysqlType::Varchar { length, .. } => u64::from(length),
            _ => FULLTEXT_CHARS_MAX + 1,
        };
        texts.push(format!("coalesce({}, '')", quote_ident(&column.name)?));
    }
    let document = format!("to_tsvector('simple', {})", texts.join(" || ' ' || "));
    if chars > FULLTEXT_CHARS_MAX {
        note(format!(
            "not created: PostgreSQL would refuse rows whose text has too many words. \
             Where they can't have, an index USING gin ({document}) finds words"
        ));
        return Ok(None);
    }
    note(format!("finds words for queries with {document} @@ …; MATCH … AGAINST does not exist"));
    Ok(Some(TargetIndex { unique: false, definition: format!("USING gin ({document})"), columns: None }))
}

fn ordered(
    model: &TableModel,
    index: &Index,
    note: &mut impl FnMut(String),
) -> Result<Option<TargetIndex>, Halt> {
    let not_enforced = "the target does not enforce its uniqueness";
    let Some(parts) = parts(model, index) else {
        return functional(model, index, note);
    };
    if index.unique {
        match unique(&parts)? {
            Ok(made) => {
                if made.columns.is_none() {
                    let over = made.definition.trim_start_matches("USING btree ");
                    note(format!("is over {over}, which a query has to name to use it"));
                }
                return Ok(Some(made));
            }
            Err(reason) => note(format!("{not_enforced}: {reason}")),
        }
    }
    if !index.visible {
        note("not created: PostgreSQL has no invisible indexes".to_owned());
        return Ok(None);
    }
    plain(&parts, note).map(Some)
}

/// An index of which a part is an expression: all of it fits, or there is none.
fn functional(
    model: &TableModel,
    index: &Index,
    note: &mut impl FnMut(String),
) -> Result<Option<TargetIndex>, Halt> {
    let consequence = if index.unique { ", and the target does not enforce its uniqueness" } else { "" };
    if !index.visible && !index.unique {
        note("not created: PostgreSQL has no invisible indexes".to_owned());
        return Ok(None);
    }
    let mut items = Vec::new();
    for part in &index.parts {
        let column = model.columns.iter().find(|column| part.column.as_ref() == Some(&column.name));
        let item = match column {
            Some(column) if labels_differ(&column.mysql) || !index.unique => item(part, column, part.prefix)?,
            Some(_) => None,
            None => expression_item(model, part, !index.unique),
        };
        let Some(item) = item else {
            note(format!(
                "not created: a part of it is an expression that is not certainly the same{consequence}"
            ));
            return Ok(None);
        };
        items.push(item);
    }
    let bytes = items.iter().map(|item| item.bytes).sum::<u64>() + INDEX_ENTRY_HEADER_BYTES;
    if bytes > MAX_KEY_BYTES {
        note(format!(
            "not created: an entry can take more bytes than PostgreSQL's {MAX_KEY_BYTES}{consequence}"
        ));
        return Ok(None);
    }
    let list: Vec<&str> = items.iter().map(|item| item.sql.as_str()).collect();
    let list = list.join(", ");
    note(format!("is over {list}, which a query has to name to use it"));
    Ok(Some(TargetIndex { unique: index.unique, definition: format!("USING btree ({list})"), columns: None }))
}

fn expression_item(model: &TableModel, part: &IndexPart, folds: bool) -> Option<Item> {
    let expression = expression::translate(part.expression.as_ref()?, model, folds)?;
    let direction = if part.descending { " DESC" } else { "" };
    let bytes = expression.bytes?.next_multiple_of(8);
    Some(Item { sql: format!("({}){direction}", expression.sql), bytes, is_prefix: true })
}

/// A unique index that refuses exactly what has the same bytes, or why there is none.
fn unique(parts: &Parts<'_>) -> Result<Result<TargetIndex, String>, Halt> {
    let mut items = Vec::new();
    let mut bytes = INDEX_ENTRY_HEADER_BYTES;
    for (part, column) in parts {
        if !labels_differ(&column.mysql) {
            let name = &column.name;
            return Ok(Err(format!("the labels of column `{name}` repeat, or one of them is empty")));
        }
        let Some(item) = item(part, column, part.prefix)? else {
            return Ok(Err(format!("column `{}` has no greatest length that it can index", column.name)));
        };
        bytes += item.bytes;
        items.push(item);
    }
    if bytes > MAX_KEY_BYTES {
        let reason = format!("an entry can take {bytes} bytes, more than PostgreSQL's {MAX_KEY_BYTES}");
        return Ok(Err(reason));
    }
    Ok(Ok(assemble(true, parts, &items)))
}

fn plain(parts: &Parts<'_>, note: &mut impl FnMut(String)) -> Result<TargetIndex, Halt> {
    let mut items: Vec<Item> = Vec::new();
    let mut bytes = INDEX_ENTRY_HEADER_BYTES;
    for (part, column) in parts {
        let fits = |item: &Item| bytes + item.bytes <= MAX_KEY_BYTES;
        let whole = item(part, column, None)?.filter(fits);
        let fitting = match (whole, part.prefix) {
            (Some(whole), _) => Some(whole),
            (None, Some(length)) => item(part, column, Some(length))?.filter(fits),
            (None, None) => None,
        };
        let Some(item) = fitting else { break };
        if item.is_prefix {
            note(format!("is over {}, which a query has to name to use it", item.sql));
        } else if let Some(length) = part.prefix {
            note(format!("is over all of `{}`, not the first {length} of it", column.name));
        }
        bytes += item.bytes;
        items.push(item);
    }
    if let (true, Some((_, first))) = (items.is_empty(), parts.first()) {
        note(format!(
            "is a hash index on `{}`, for equality only: values can be longer than a B-tree takes",
            first.name
        ));
        let definition = format!("USING hash ({})", quote_ident(&first.name)?);
        return Ok(TargetIndex { unique: false, definition, columns: None });
    }
    if let Some((_, left_out)) = parts.get(items.len()) {
        let name = &left_out.name;
        note(format!("ends before `{name}`: values can be longer than a B-tree takes"));
    }
    Ok(assemble(false, parts, &items))
}

/// What is indexed of one column.
struct Item {
    sql: String,
    /// The most that it takes in an entry.
    bytes: u64,
    is_prefix: bool,
}

/// `None` where the size has no bound.
fn item(part: &IndexPart, column: &Column, prefix: Option<u32>) -> Result<Option<Item>, Halt> {
    let name = quote_ident(&column.name)?;
    let direction = if part.descending { " DESC" } else { "" };
    let Some(length) = prefix else {
        let bytes = max_key_width(&column.mysql).map(|width| width.next_multiple_of(8));
        return Ok(bytes.map(|bytes| Item { sql: format!("{name}{direction}"), bytes, is_prefix: false }));
    };
    let (expression, cut) = match &column.mysql {
        MysqlType::Char { charset, .. }
        | MysqlType::Varchar { charset, .. }
        | MysqlType::Text { charset } => {
            (format!("left({name}, {length})"), MysqlType::Varchar { length, charset: charset.clone() })
        }
        MysqlType::Binary { .. } | MysqlType::Varbinary { .. } | MysqlType::Blob => {
            (format!("substr({name}, 1, {length})"), MysqlType::Varbinary { length })
        }
        _ => return Ok(None),
    };
    let bytes = max_key_width(&cut).map(|width| width.next_multiple_of(8));
    Ok(bytes.map(|bytes| Item { sql: format!("{expression}{direction}"), bytes, is_prefix: true }))
}

fn assemble(unique: bool, parts: &Parts<'_>, items: &[Item]) -> TargetIndex {
    let whole = items.iter().all(|item| !item.is_prefix)
        && items.len() == parts.len()
        && parts.iter().all(|(part, _)| !part.descending);
    let columns = whole.then(|| parts.iter().map(|(_, column)| column.name.clone()).collect());
    let list: Vec<&str> = items.iter().map(|item| item.sql.as_str()).collect();
    TargetIndex { unique, definition: format!("USING btree ({})", list.join(", ")), columns }
}

#[cfg(test)]
mod tests;
