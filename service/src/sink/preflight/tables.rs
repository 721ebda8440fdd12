//! Target tables that are there already, looked at as a run would take them: one that the pipeline has
//! copied is what its record says, whatever today's settings would make of it; any other is what the
//! copy would need. What is proposed keeps every row that may be somebody's.

use super::{Client, DOING, Failure, Finding, TableModel, role, scalar, while_doing};
use crate::schema::diff::Uniqueness;
use crate::schema::names::Candidates;
use crate::schema::partitions::other_choice;
use crate::schema::phase::TablePhase;
use crate::schema::recorded::{keeps_copy, with_targets};
use crate::schema::render::{self, quote_ident};
use crate::schema::types::may_become_boolean;
use crate::schema::{TableName, TargetType};
use crate::sink::statements;
use crate::sink::table_state::{self, Ownership, TableState};
use crate::sink::{catalog, migrate};

const EXACT: &str = "rows must be stored exactly as the source has them";

/// A list of privileges in one call would be satisfied by any of them. Without USAGE of the schema,
/// which is a finding of its own, none can be used.
const MAY_READ_AND_WRITE: &str = "\
    SELECT has_schema_privilege(n.oid, 'USAGE') \
        AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1::text AND c.relname = $2::text";

/// What the tables that exist already need, unless the name alone rules one out: models are checked
/// for that where they are made.
pub(super) async fn check(
    client: &Client,
    pipeline: &str,
    tables: &[TableModel],
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let on_record: bool =
        scalar(client, "SELECT to_regclass('tidegate.table_state') IS NOT NULL", &[]).await?;
    let is_current = !on_record || migrate::is_current(client).await?;
    if !is_current {
        findings.push(older_control_schema());
    }
    let states =
        if on_record && is_current { table_state::load(client, pipeline).await? } else { Vec::new() };
    for model in tables {
        let state = states.iter().find(|state| *state.name() == model.name);
        match state.filter(|state| state.phase != TablePhase::Detached) {
            Some(state) => check_own(client, state, model, findings).await?,
            None if on_record => match catalog::owner(client, &model.name.database, &model.name.table).await?
            {
                // Of an earlier release's control schema.
                Some(owner) if owner == pipeline => {}
                Some(owner) => findings.push(of_another(&owner, &model.name)?),
                None => check_free(client, model, findings).await?,
            },
            None => check_free(client, model, findings).await?,
        }
    }
    Ok(())
}

/// A table of this pipeline.
async fn check_own(
    client: &Client,
    state: &TableState,
    present: &TableModel,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let (model, uniqueness) = match state.phase {
        TablePhase::CatchingUp | TablePhase::Streaming => (state.model.clone(), state.uniqueness()),
        _ if state.ownership == Ownership::Unclaimed => return check_free(client, present, findings).await,
        // It is made anew where it does not fit.
        _ if state.ownership == Ownership::Created => {
            return check_privileges(client, present, findings).await.map(drop);
        }
        TablePhase::Copying if keeps_copy(&state.model, present) => {
            (with_targets(present.clone(), &state.model), Uniqueness::OfKey)
        }
        _ => (present.clone(), Uniqueness::OfKey),
    };
    let table = render::qualified(&model.name)?;
    if matches!(state.phase, TablePhase::CatchingUp | TablePhase::Streaming)
        && let Some(problem) = other_choice(&state.model, present)
    {
        findings.push(Finding::error(
            "target.partitions",
            format!("{table}: {problem}"),
            "a table that is copied stays as it is",
            "Set schema.partitions in [schema.\"database.table\"], or copy the table again (ops/runbook.md)",
        ));
    }
    let fix = "Undo what was changed, and go on; or copy the table again (ops/runbook.md), which loses what was \
        written to it past Tidegate. If the application has moved to the target, leave the table as it is and do \
        not start this pipeline again";
    match catalog::read_table(client, &model.name).await? {
        None => findings.push(Finding::error(
            "target.table",
            format!("{table}: the target's table is missing"),
            "this pipeline has copied it, and goes on with its changes",
            "Bring it back with its rows, or copy the table again (ops/runbook.md)",
        )),
        Some(found) => {
            for difference in catalog::differences(client, &model, &found, uniqueness).await? {
                findings.push(Finding::error("target.table", format!("{table}: {difference}"), EXACT, fix));
            }
        }
    }
    check_privileges(client, &model, findings).await.map(drop)
}

fn older_control_schema() -> Finding {
    Finding::warning(
        "target.control_schema",
        "schema tidegate is that of an earlier release",
        "what it has on record of this pipeline's tables can be checked once a run has brought it up to date",
        "Start tidegate run, which does that by itself",
    )
}

fn of_another(pipeline: &str, name: &TableName) -> Result<Finding, Failure> {
    Ok(Finding::error(
        "target.table_owner",
        format!("pipeline {pipeline:?} writes {}", render::qualified(name)?),
        "a table has one pipeline: its rows are that one's, and it must not be emptied for another",
        format!("Set pipeline.name = {pipeline:?} to go on with it, or exclude the table in one of the two"),
    ))
}

/// A table that no pipeline writes: a copy needs it fit and empty.
async fn check_free(client: &Client, model: &TableModel, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let Some(found) = catalog::read_table(client, &model.name).await? else { return Ok(()) };
    let mut model = model.clone();
    for column in model.columns.iter_mut().filter(|column| may_become_boolean(column)) {
        // Which of the two it is, the rows decide when they are copied.
        if found.columns.iter().any(|found| found.name == column.name && found.type_sql == "boolean") {
            column.target = TargetType::Boolean;
        }
    }
    let table = render::qualified(&model.name)?;
    let may_use = check_privileges(client, &model, findings).await?;
    // What can't be looked at may have rows.
    let has_rows = !may_use || scalar::<bool>(client, &statements::has_rows(&model)?, &[]).await?;
    let way_out = way_out(client, &model.name, found.kind).await?;
    let is_native = model.details.target_partitions.native().is_some();
    let holds_rows = found.kind == if is_native { 'p' } else { 'r' };
    for difference in catalog::differences(client, &model, &found, Uniqueness::OfKey).await? {
        let fix = if has_rows || !holds_rows {
            way_out.clone()
        } else {
            format!("DROP TABLE {table} -- it has no rows, and Tidegate creates it; or alter it as described")
        };
        findings.push(Finding::error("target.table", format!("{table}: {difference}"), EXACT, fix));
    }
    if may_use && has_rows && holds_rows {
        findings.push(Finding::error(
            "target.table_rows",
            format!("{table} has rows, and no pipeline writes it"),
            "nothing tells its rows from the source's, and they would have to go for a copy",
            format!("{way_out}; where nobody needs its rows, TRUNCATE TABLE {table} loses them all"),
        ));
    }
    Ok(())
}

/// SQL that lets a copy have the name, and costs nobody a row.
async fn way_out(client: &Client, name: &TableName, kind: char) -> Result<String, Failure> {
    let wanted = Candidates::of_kept(name);
    let free = catalog::relations(client, &name.database).await?.take(&wanted);
    let relation = match kind {
        'v' => "VIEW",
        'm' => "MATERIALIZED VIEW",
        'f' => "FOREIGN TABLE",
        'S' => "SEQUENCE",
        'i' | 'I' => "INDEX",
        _ => "TABLE",
    };
    Ok(format!(
        "ALTER {relation} {} RENAME TO {} -- keeps it and all of its rows; or exclude the table",
        render::qualified(name)?,
        quote_ident(&free)?
    ))
}

/// Answers whether the table, if it is there, can be read and written.
async fn check_privileges(
    client: &Client,
    model: &TableModel,
    findings: &mut Vec<Finding>,
) -> Result<bool, Failure> {
    let TableName { database, table } = &model.name;
    let row = client.query_opt(MAY_READ_AND_WRITE, &[database, table]).await.map_err(while_doing(DOING))?;
    let Some(row) = row else { return Ok(true) };
    let may_use: bool = row.try_get(0).map_err(while_doing(DOING))?;
    if !may_use {
        let table = render::qualified(&model.name)?;
        findings.push(Finding::error(
            "target.table_privilege",
            format!("this role may not read and write {table}"),
            "replicated rows are inserted, updated and deleted, and matched by their key",
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {}", role(client).await?),
        ));
    }
    Ok(may_use)
}
