//! A table's definition on record beside the one that the source has now.

use super::{TableModel, spatial};

/// Whether rows of the recorded definition are rows of the present one: what a replay depends on. The
/// target's types and nullability are not compared: they were chosen from the data, and stay. Neither is what
/// rows do not depend on, such as defaults.
#[must_use]
pub fn same_definition(recorded: &TableModel, present: &TableModel) -> bool {
    let mut present = with_targets(present.clone(), recorded);
    present.details.clone_from(&recorded.details);
    for (column, recorded) in present.columns.iter_mut().zip(&recorded.columns) {
        column.details.clone_from(&recorded.details);
    }
    // What rows do not depend on, and older records do not have.
    present.default_charset.clone_from(&recorded.default_charset);
    present == *recorded
}

/// Whether a copy that is not complete may go on in the target's table: its rows are the same, and neither
/// the configuration nor what is installed has changed what it is made of.
#[must_use]
pub fn keeps_copy(recorded: &TableModel, present: &TableModel) -> bool {
    same_definition(recorded, present)
        && recorded.details.target_partitions == present.details.target_partitions
        && spatial::same_choice(recorded, present)
}

/// The present definition with the target's types, nullability, collations and partitions of the recorded
/// one.
#[must_use]
pub fn with_targets(mut present: TableModel, recorded: &TableModel) -> TableModel {
    spatial::keep_choice(&mut present, recorded);
    for (column, recorded) in present.columns.iter_mut().zip(&recorded.columns) {
        column.target = recorded.target;
        column.not_null_dropped = recorded.not_null_dropped;
        column.details.target_collation.clone_from(&recorded.details.target_collation);
    }
    present.details.target_partitions.clone_from(&recorded.details.target_partitions);
    present
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::partitions::TargetPartitions;
    use crate::schema::{Column, MysqlType, TableName, TargetType};

    #[test]
    fn a_definition_is_compared_without_the_types_chosen_for_the_target() {
        let column = |name: &str, target| Column {
            name: name.to_owned(),
            mysql: MysqlType::TinyInt { unsigned: false, display_width_one: true },
            target,
            nullable: true,
            not_null_dropped: false,
            auto_increment: false,
            generated: false,
            details: Default::default(),
        };
        let recorded = TableModel {
            name: TableName { database: "d".to_owned(), table: "t".to_owned() },
            columns: vec![column("a", TargetType::Boolean)],
            key: vec![0],
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
        };
        let present = TableModel { columns: vec![column("a", TargetType::SmallInt)], ..recorded.clone() };
        assert!(same_definition(&recorded, &present));
        assert!(keeps_copy(&recorded, &present));
        let mut partitioned = present.clone();
        partitioned.details.target_partitions = TargetPartitions::Unmapped(String::new());
        assert!(same_definition(&recorded, &partitioned) && !keeps_copy(&recorded, &partitioned));
        for changed in [
            TableModel { columns: vec![column("b", TargetType::SmallInt)], ..present.clone() },
            TableModel { key: Vec::new(), ..present.clone() },
            TableModel { engine: "MyISAM".to_owned(), ..present.clone() },
            TableModel { columns: vec![column("a", TargetType::SmallInt); 2], ..present },
        ] {
            assert!(!same_definition(&recorded, &changed), "{changed:?}");
        }
    }
}
