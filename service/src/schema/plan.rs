//! Everything that is made on the target for the tables of a source, as one script.

use std::collections::HashMap;

use super::collation::has_collated_key;
use super::cutover;
use super::names::Names;
use super::objects::{Note, Object, ObjectKind, column_notes, objects};
use super::render::collation::create_collations;
use super::render::{Key, create_schema, create_statements};
use super::{TableModel, TableName};
use crate::halt::Halt;

/// What `tidegate plan` tells.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Plan {
    /// Schemas, and what texts are compared by.
    pub schemas: Vec<String>,
    pub tables: Vec<TablePlan>,
    /// Built once both tables of each are complete.
    pub foreign_keys: Vec<String>,
    /// Views, routines, triggers and events: kind and name.
    pub not_carried_over: Vec<(String, String)>,
    /// What of these the source's account may not see, and what lets it.
    pub not_seen: Vec<String>,
    /// What needs a decision: the pipeline would halt.
    pub problems: Vec<String>,
}

/// The next number of each table that numbers its rows.
pub type Counters = HashMap<TableName, u64>;

/// What the source has beside the definitions of its tables.
#[derive(Debug, Default)]
pub struct Beside {
    pub not_carried_over: Vec<(String, String)>,
    pub not_seen: Vec<String>,
    pub counters: Counters,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TablePlan {
    /// `database.table` of the source.
    pub source: String,
    /// Run before the rows are copied.
    pub create: Vec<String>,
    /// Run once the rows are there.
    pub complete: Vec<String>,
    /// For a person to run once the application moves; comments where that person has to think.
    pub cutover: Vec<String>,
    pub notes: Vec<Note>,
}

impl Plan {
    /// The plan for these tables on a target without any of their schemas.
    #[must_use]
    pub fn new(models: &[TableModel], beside: Beside) -> Self {
        let Beside { not_carried_over, not_seen, counters } = beside;
        let mut plan = Self {
            schemas: Vec::new(),
            tables: Vec::new(),
            foreign_keys: Vec::new(),
            not_carried_over,
            not_seen,
            problems: Vec::new(),
        };
        let mut databases: Vec<&str> = models.iter().map(|model| model.name.database.as_str()).collect();
        databases.sort_unstable();
        databases.dedup();
        for database in databases {
            match create_schema(database) {
                Ok(statement) => plan.schemas.push(statement),
                Err(halt) => plan.problems.push(shown(&halt)),
            }
            plan.database(models, database, &counters);
        }
        plan
    }

    /// In the order of a run: tables first, then what completes each, foreign keys last.
    fn database(&mut self, models: &[TableModel], database: &str, counters: &Counters) {
        let in_database: Vec<&TableModel> =
            models.iter().filter(|model| model.name.database == database).collect();
        let mut relations = Names::new(in_database.iter().flat_map(|model| relations(model)));
        let mut created = Vec::new();
        for model in in_database {
            let collations = create_collations(model);
            match collations
                .and_then(|them| Ok((them, create_statements(model, &mut relations, Key::Included)?)))
            {
                Ok((mut collations, create)) => {
                    collations.retain(|statement| !self.schemas.contains(statement));
                    self.schemas.append(&mut collations);
                    created.push((model, create));
                }
                Err(halt) => self.problems.push(shown(&halt)),
            }
        }
        let find = |name: &TableName| models.iter().find(|model| model.name == *name);
        for (model, create) in created {
            let completed = completion(model, &find, &mut relations);
            match completed
                .and_then(|done| Ok((done, cutover::statements(model, counters.get(&model.name).copied())?)))
            {
                Ok(((complete, foreign_keys, mut notes), cutover)) => {
                    let mut all = column_notes(model);
                    all.append(&mut notes);
                    let TableName { database, table } = &model.name;
                    let source = format!("{database}.{table}");
                    self.tables.push(TablePlan { source, create, complete, cutover, notes: all });
                    self.foreign_keys.extend(foreign_keys);
                }
                Err(halt) => self.problems.push(shown(&halt)),
            }
        }
    }

    /// The script, with what is to be known as comments.
    #[must_use]
    pub fn script(&self) -> String {
        let mut script = String::from("-- What tidegate run creates on the target.\n");
        for problem in &self.problems {
            comment(&mut script, &format!("NEEDS A DECISION: {problem}"));
        }
        for (kind, name) in &self.not_carried_over {
            comment(&mut script, &format!("not carried over: {kind} {name}"));
        }
        for not_seen in &self.not_seen {
            comment(&mut script, &format!("NOT LOOKED AT: {not_seen}"));
        }
        statements(&mut script, &self.schemas);
        for table in &self.tables {
            script.push('\n');
            comment(&mut script, &table.source);
            for note in &table.notes {
                comment(&mut script, &format!("  {note}"));
            }
            statements(&mut script, &table.create);
        }
        script.push_str("\n-- Once the rows of a table are there:\n");
        for table in &self.tables {
            statements(&mut script, &table.complete);
        }
        if !self.foreign_keys.is_empty() {
            script.push_str("\n-- Once both tables of a foreign key are complete:\n");
            statements(&mut script, &self.foreign_keys);
        }
        if self.tables.iter().any(|table| !table.cutover.is_empty()) {
            script.push_str("\n-- Once the application moves, for a person to look at and run:\n");
        }
        for statement in self.tables.iter().flat_map(|table| &table.cutover) {
            let end = if statement.starts_with("--") { "" } else { ";" };
            comment(&mut script, &format!("  {statement}{end}"));
        }
        script
    }
}

type Completion = (Vec<String>, Vec<String>, Vec<Note>);

fn completion<'a>(
    model: &TableModel,
    replicated: &dyn Fn(&TableName) -> Option<&'a TableModel>,
    relations: &mut Names,
) -> Result<Completion, Halt> {
    let (objects, notes) = objects(model, replicated)?;
    let (keys, others): (Vec<Object>, Vec<Object>) =
        objects.into_iter().partition(|object| object.kind() == ObjectKind::ForeignKey);
    let mut render = |objects: Vec<Object>| -> Result<Vec<String>, Halt> {
        objects.iter().map(|object| object.statement(&object.target_name(relations))).collect()
    };
    Ok((render(others)?, render(keys)?, notes))
}

/// The names that creating a table takes in its schema, but for sequences, which are told apart there:
/// the table's, and those that PostgreSQL gives its key and its identity column.
fn relations(model: &TableModel) -> Vec<String> {
    let TableName { table, .. } = &model.name;
    let mut names = vec![table.clone()];
    let key = model.key.iter().filter_map(|&at| model.columns.get(at)).map(|column| column.name.as_str());
    let columns = key.collect::<Vec<_>>().join("_");
    names.push(match (has_collated_key(model), model.key_is_primary) {
        (true, _) => format!("{table}_{columns}_idx"),
        (false, true) => format!("{table}_pkey"),
        (false, false) => format!("{table}_{columns}_key"),
    });
    let numbered = model.columns.iter().filter(|column| super::render::has_identity(column));
    names.extend(numbered.map(|column| format!("{table}_{}_seq", column.name)));
    names
}

fn shown(halt: &Halt) -> String {
    halt.to_string()
}

/// A comment of one line: a line end in a name would end it.
fn comment(script: &mut String, text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    script.push_str("-- ");
    script.push_str(&text);
    script.push('\n');
}

fn statements(script: &mut String, statements: &[String]) {
    for statement in statements {
        script.push_str(statement);
        script.push_str(";\n");
    }
}

#[cfg(test)]
mod tests;
