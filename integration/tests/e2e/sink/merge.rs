//! Merged batches against the same changes row by row: random batches over tables with several
//! unique indexes, keys of numbers, texts and several columns that move, swap, shift and come back,
//! and a table without a key.

use tidegate::fold::unit::{RowsChange, RowsKind};
use tidegate::halt::Reason;
use tidegate::schema::TargetType;
use tidegate::schema::details::{Index, IndexKind, IndexPart};
use tidegate_integration::run;

use super::source_rows::{Int, Null, Table, Text, Value, transaction};
use super::*;
use crate::dice::Dice;

/// Enough for every kind of conflict to come up many times.
const CASES: u64 = 40;

/// A value that the source may store and a row unknown to it has on the target.
const TAKEN: &str = "taken";

/// Few values, so that rows meet.
const TEXTS: [&str; 8] = ["a", "b", "c", "d", "A", "a ", "", TAKEN];

/// What a policy replaces, and by what.
const NUL: &str = "n\0";
const REPLACED: &str = "n\u{fffd}";

/// Columns of no key and no index, by table: any text will do there.
const FREE: [(usize, usize); 2] = [(0, 3), (4, 1)];

type Row = Vec<Value>;

/// Rows of one event, in pairs for an update.
struct Rows {
    table: usize,
    kind: RowsKind,
    images: Vec<Row>,
}

/// A table of the source: what it holds, and which columns are unique besides the key, each entry
/// together.
struct SourceTable {
    table: Table,
    unique: &'static [&'static [usize]],
    rows: Vec<Row>,
}

impl SourceTable {
    /// The target gets the unique indexes that the source has.
    fn new(mut table: Table, unique: &'static [&'static [usize]]) -> Self {
        let columns = &table.model.columns;
        let part = |&column: &usize| IndexPart {
            column: Some(columns[column].name.clone()),
            expression: None,
            prefix: None,
            descending: false,
        };
        let index = |(number, columns): (usize, &&[usize])| Index {
            name: format!("unique_{number}"),
            unique: true,
            kind: IndexKind::Ordered,
            visible: true,
            parts: columns.iter().map(part).collect(),
        };
        table.model.details.indexes = unique.iter().enumerate().map(index).collect();
        Self { table, unique, rows: Vec::new() }
    }
}

struct Source {
    tables: Vec<SourceTable>,
    dice: Dice,
}

impl Source {
    fn new(database: &str, dice: Dice) -> Self {
        let table = |name, columns: &[(&str, bool)], key: &[usize]| Table::new(database, name, columns, key);
        let uniques = table("uniques", &[("id", false), ("u", true), ("w", false), ("note", true)], &[0]);
        let pair = table("pair", &[("a", true), ("b", false), ("v", true)], &[1, 0]);
        let tables = vec![
            SourceTable::new(uniques, &[&[1], &[2]]),
            SourceTable::new(pair, &[&[2, 1]]),
            SourceTable::new(table("only_key", &[("id", false)], &[0]), &[]),
            SourceTable::new(table("texts", &[("id", true), ("n", false)], &[0]), &[&[1]]),
            SourceTable::new(table("keyless", &[("a", false), ("b", true)], &[]), &[]),
        ];
        Self { tables, dice }
    }

    fn models(&self) -> Vec<TableModel> {
        self.tables.iter().map(|table| table.table.model.clone()).collect()
    }

    fn value(&mut self, table: usize, column: usize) -> Value {
        let columns = &self.tables[table].table.map.columns;
        if columns[column].nullable && self.dice.below(6) == 0 {
            return Null;
        }
        if self.tables[table].table.model.columns[column].target == TargetType::Integer {
            return Int(i32::try_from(self.dice.below(9)).expect("small") - 2);
        }
        if FREE.contains(&(table, column)) && self.dice.below(3) == 0 {
            return Text(NUL);
        }
        // The taken value is rare, or no batch would be applied.
        let below = if self.dice.below(40) == 0 { 8 } else { 7 };
        Text(TEXTS[usize::try_from(self.dice.below(below)).expect("an index")])
    }

    fn row(&mut self, table: usize) -> Row {
        (0..self.tables[table].table.map.columns.len()).map(|column| self.value(table, column)).collect()
    }

    /// Whether the source could hold the row beside all others but the one at `except`.
    fn fits(&self, table: usize, row: &Row, except: Option<usize>) -> bool {
        let SourceTable { table, unique, rows } = &self.tables[table];
        let key = &table.model.key;
        let mut others =
            rows.iter().enumerate().filter(|(index, _)| Some(*index) != except).map(|(_, row)| row);
        !others.any(|other| {
            let same = |&column: &usize| other[column] == row[column];
            let collides = |&column: &usize| same(&column) && row[column] != Null;
            (!key.is_empty() && key.iter().all(same))
                || unique.iter().any(|columns| columns.iter().all(collides))
        })
    }

    /// One change of one row, as MySQL would accept and log it.
    fn change(&mut self) -> Option<Rows> {
        let table = [0, 0, 0, 1, 1, 2, 3, 3, 4][usize::try_from(self.dice.below(9)).ok()?];
        let count = self.tables[table].rows.len();
        let at = if count == 0 { None } else { usize::try_from(self.dice.below(count as u64)).ok() };
        match (self.dice.below(5), at) {
            (0 | 1, _) | (_, None) => {
                let row = self.row(table);
                self.fits(table, &row, None).then_some(())?;
                self.tables[table].rows.push(row.clone());
                Some(Rows { table, kind: RowsKind::Write, images: vec![row] })
            }
            (2, Some(at)) => {
                let row = self.tables[table].rows.swap_remove(at);
                Some(Rows { table, kind: RowsKind::Delete, images: vec![row] })
            }
            (_, Some(at)) => {
                let before = self.tables[table].rows[at].clone();
                let mut after = before.clone();
                let column = usize::try_from(self.dice.below(before.len() as u64)).ok()?;
                after[column] = self.value(table, column);
                self.fits(table, &after, Some(at)).then_some(())?;
                self.tables[table].rows[at].clone_from(&after);
                Some(Rows { table, kind: RowsKind::Update, images: vec![before, after] })
            }
        }
    }

    /// Two rows of the first table swap a unique value, by way of NULL.
    fn swap(&mut self) -> Vec<Rows> {
        let rows = &mut self.tables[0].rows;
        let [first, second, ..] = rows.as_mut_slice() else { return Vec::new() };
        let (one, other) = (first[1], second[1]);
        let set = |row: &mut Row, value| update(0, row, |row| row[1] = value);
        vec![set(first, Null), set(second, one), set(first, other)]
    }

    /// Two rows of the table with text keys swap their keys, by way of a third one.
    fn swap_keys(&mut self) -> Vec<Rows> {
        let rows = &mut self.tables[3].rows;
        let [first, second, ..] = rows.as_mut_slice() else { return Vec::new() };
        let (one, other) = (first[0], second[0]);
        let set = |row: &mut Row, value| update(3, row, |row| row[0] = value);
        vec![set(first, Text("between")), set(second, one), set(first, other)]
    }

    /// One statement moves the first table's highest numbers up by one, the key's or a unique column's,
    /// from the highest on.
    fn shift(&mut self) -> Vec<Rows> {
        let column = if self.dice.below(2) == 0 { 0 } else { 2 };
        let number = |row: &Row| if let Int(number) = row[column] { number } else { i32::MIN };
        let rows = &mut self.tables[0].rows;
        rows.sort_by_key(|row| std::cmp::Reverse(number(row)));
        let mut images = Vec::new();
        for row in rows.iter_mut().filter(|row| row[column] != Null).take(9) {
            let next = Int(number(row) + 1);
            images.extend(update(0, row, |row| row[column] = next).images);
        }
        if images.is_empty() { Vec::new() } else { vec![Rows { table: 0, kind: RowsKind::Update, images }] }
    }

    /// REPLACE: a row goes, and another one has its unique values and its key or a new one.
    fn replace(&mut self) -> Vec<Rows> {
        let table = if self.dice.below(2) == 0 { 0 } else { 3 };
        let key = self.value(table, 0);
        let Some(old) = self.tables[table].rows.pop() else { return Vec::new() };
        let mut new = old.clone();
        new[0] = key;
        if !self.fits(table, &new, None) {
            new[0] = old[0];
        }
        self.tables[table].rows.push(new.clone());
        let change = |kind, row| Rows { table, kind, images: vec![row] };
        vec![change(RowsKind::Delete, old), change(RowsKind::Write, new)]
    }

    /// Transactions of few enough rows to be written in source order when they come alone.
    fn transactions(&mut self, count: u64) -> Vec<Vec<Rows>> {
        let mut transactions = Vec::new();
        for _ in 0..count {
            let attempts = 1 + self.dice.below(7);
            let mut changes: Vec<Rows> = (0..attempts).filter_map(|_| self.change()).collect();
            changes.extend(match self.dice.below(24) {
                0 | 1 => self.swap(),
                2 | 3 => self.swap_keys(),
                4 | 5 => self.shift(),
                6 | 7 => self.replace(),
                _ => Vec::new(),
            });
            transactions.push(changes);
        }
        transactions
    }

    fn unit(&self, gno: u64, changes: &[Rows]) -> Unit {
        let change = |rows: &Rows| -> RowsChange {
            let images: Vec<&[Value]> = rows.images.iter().map(Vec::as_slice).collect();
            let table = &self.tables[rows.table].table;
            match rows.kind {
                RowsKind::Write => table.insert(&images),
                RowsKind::Update => table.update(&images),
                RowsKind::Delete => table.delete(&images),
            }
        };
        Unit::Transaction(transaction(gno, changes.iter().map(change).collect()))
    }

    /// Every row of every table, as the target shows them.
    fn contents(&self) -> Vec<String> {
        let text = |value: &Value| match value {
            Null => "NULL".to_owned(),
            Int(number) => number.to_string(),
            Text(NUL) => format!("'{REPLACED}'"),
            Text(text) => format!("'{text}'"),
        };
        let mut contents = Vec::new();
        for SourceTable { table, rows, .. } in &self.tables {
            for row in rows {
                let values: Vec<String> = row.iter().map(text).collect();
                contents.push(format!("{} {}", table.model.name.table, values.join(",")));
            }
        }
        contents.sort();
        contents
    }
}

/// What the update of a row makes of it.
fn update(table: usize, row: &mut Row, change: impl FnOnce(&mut Row)) -> Rows {
    let before = row.clone();
    change(row);
    Rows { table, kind: RowsKind::Update, images: vec![before, row.clone()] }
}

/// Every row of the target's tables.
async fn contents(fixture: &Fixture<'_>) -> Result<Vec<String>> {
    let sql = "SELECT 'uniques ' || concat_ws(',', id, quote_nullable(u), coalesce(w::text, 'NULL'), quote_nullable(note)) FROM merge.uniques \
        UNION ALL SELECT 'pair ' || concat_ws(',', quote_nullable(a), b, quote_nullable(v)) FROM merge.pair \
        UNION ALL SELECT 'only_key ' || id FROM merge.only_key \
        UNION ALL SELECT 'texts ' || concat_ws(',', quote_nullable(id), coalesce(n::text, 'NULL')) FROM merge.texts \
        UNION ALL SELECT 'keyless ' || concat_ws(',', coalesce(a::text, 'NULL'), quote_nullable(b)) FROM merge.keyless";
    let rows = fixture.target_rows(sql).await?;
    let mut contents: Vec<String> = rows.into_iter().flatten().flatten().collect();
    contents.sort();
    Ok(contents)
}

/// How often values were replaced, and how many are there.
async fn ledger(fixture: &Fixture<'_>) -> Result<Vec<TextRow>> {
    let sql = "SELECT source_table, source_column, kind, uses, keys, first_use, last_use FROM tidegate.conversion \
        ORDER BY source_table, source_column";
    fixture.target_rows(sql).await
}

/// A target to which units are applied in one of the two ways.
struct Side {
    fixture: Fixture<'static>,
    applier: Applier,
}

impl Side {
    async fn new(name: &str, source: &Source) -> Result<Self> {
        let fixture = fixture(name).await?;
        let config = config(&fixture);
        let mut applier = streaming(&config, &source.models()).await?;
        applier.build_objects().await?;
        let built = "SELECT count(*) FROM tidegate.schema_object WHERE outcome = 'built'";
        assert_eq!(fixture.target_scalar(built).await?.as_deref(), Some("4"));
        Ok(Self { fixture, applier })
    }

    /// Only what the source does not know.
    async fn prepare(&self, foreign_row: bool, lost_row: bool) -> Result<()> {
        if foreign_row {
            let insert = format!("INSERT INTO merge.uniques (id, u) VALUES (100, '{TAKEN}')");
            self.fixture.target(&insert).await?;
        }
        if lost_row {
            // The same row on either side, wherever it lies.
            let delete = "DELETE FROM merge.keyless WHERE ctid = (\
                SELECT ctid FROM merge.keyless ORDER BY a, b COLLATE \"C\", ctid LIMIT 1)";
            self.fixture.target(delete).await?;
        }
        Ok(())
    }
}

/// Applies one by one, as far as it goes.
async fn one_by_one(applier: &mut Applier, units: Vec<Unit>) -> Result<(), Failure> {
    for unit in units {
        let progress = applier.apply(&[unit]).await?;
        assert_eq!((progress.merged, progress.conflicts), (0, 0), "few rows are written in order");
    }
    Ok(())
}

#[derive(Default)]
struct Seen {
    merged: u64,
    conflicts: u64,
    halts: u64,
}

/// One batch, both ways. Returns the first number that is free afterwards.
async fn case(source: &mut Source, sides: &mut [Side; 2], first: u64, seen: &mut Seen) -> Result<u64> {
    let (mut gno, initial) = (first, source.transactions(8));
    for changes in &initial {
        for side in &mut *sides {
            one_by_one(&mut side.applier, vec![source.unit(gno, changes)]).await?;
        }
        gno += 1;
    }
    let is_taken = source.tables[0].rows.iter().any(|row| row[1] == Text(TAKEN));
    let foreign_row = source.dice.below(4) == 0 && !is_taken;
    let lost_row = source.dice.below(8) == 0;
    for side in &*sides {
        side.prepare(foreign_row, lost_row).await?;
    }
    let count = 6 + source.dice.below(12);
    let batch = source.transactions(count);
    let [ordered, merged] = sides;
    let units = |source: &Source| {
        let numbered = (gno..).zip(&batch);
        numbered.map(|(gno, changes)| source.unit(gno, changes)).collect::<Vec<_>>()
    };
    let expected = one_by_one(&mut ordered.applier, units(source)).await;
    let found = merged.applier.apply(&units(source)).await;
    match (expected, found) {
        (Ok(()), Ok(progress)) => {
            seen.merged += progress.merged;
            seen.conflicts += progress.conflicts;
            assert_eq!(contents(&ordered.fixture).await?, contents(&merged.fixture).await?);
            assert_eq!(ledger(&ordered.fixture).await?, ledger(&merged.fixture).await?);
        }
        // What only the target forbids is judged by what would be committed: a row that offends in
        // between and is gone at the end of the batch does not.
        (Err(_), Ok(_)) => {
            assert!(foreign_row, "the source's own constraints never forbid what it did");
            let mut rows = source.contents();
            rows.push(format!("uniques 100,'{TAKEN}',NULL,NULL"));
            rows.sort();
            assert_eq!(contents(&merged.fixture).await?, rows);
        }
        (Err(expected), found) => {
            let (expected, found) = (halt::<()>(Err(expected))?, halt(found)?);
            assert_eq!(found, expected);
            assert!(matches!(found.reason, Reason::TargetConstraint | Reason::KeylessRowNotFound));
            // Of this batch: an earlier one may have gone through on one side alone.
            let batch = set(&format!("{gno}-{}", gno + count - 1))?;
            let processed = |side: &Side| side.applier.position().processed.intersection(&batch);
            assert_eq!(processed(merged), processed(ordered));
            assert_eq!(contents(&ordered.fixture).await?, contents(&merged.fixture).await?);
            assert_eq!(ledger(&ordered.fixture).await?, ledger(&merged.fixture).await?);
            seen.halts += 1;
        }
        (Ok(()), Err(found)) => bail!("the merged batch alone fails: {found:?}"),
    }
    for side in [ordered, merged] {
        let clear = "DELETE FROM merge.uniques; DELETE FROM merge.pair; DELETE FROM merge.only_key; \
            DELETE FROM merge.texts; DELETE FROM merge.keyless; DELETE FROM tidegate.conversion";
        side.fixture.target(clear).await?;
    }
    source.tables.iter_mut().for_each(|table| table.rows.clear());
    Ok(gno + count)
}

#[test]
fn merged_batches_end_as_their_rows_one_by_one() {
    run(async {
        let mut source = Source::new("merge", Dice::from_environment()?);
        let mut sides = [Side::new("ordered", &source).await?, Side::new("merged", &source).await?];
        let (mut gno, mut seen) = (11, Seen::default());
        for number in 0..CASES {
            gno = case(&mut source, &mut sides, gno, &mut seen)
                .await
                .with_context(|| format!("case {number}"))?;
        }
        let Seen { merged, conflicts, halts } = seen;
        println!("{merged} parts merged, {conflicts} conflicts, {halts} halts");
        assert!(merged > CASES / 4 && conflicts > 0 && halts > 0);
        Ok(())
    });
}
