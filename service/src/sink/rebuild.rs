//! What others have put on a table of the pipeline's that is dropped and created anew: privileges are
//! given back, and what can't be is named.

use tokio_postgres::Row;

use super::client::Client;
use super::error::while_doing;
use crate::halt::Failure;
use crate::schema::render::{qualified, quote_ident};
use crate::schema::{TableModel, TableName};

const DOING: &str = "reading what others have put on a table";

/// Privileges on the table and on single columns, those of its owner left out, as the parts of GRANT.
const READ_GRANTS: &str = "\
    SELECT g.privilege_type, g.grantee = 0, coalesce(r.rolname::text, ''), g.is_grantable, g.column_name \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL ( \
        SELECT x.privilege_type, x.grantee, x.is_grantable, NULL::text AS column_name FROM aclexplode(c.relacl) x \
        UNION ALL SELECT x.privilege_type, x.grantee, x.is_grantable, a.attname::text \
        FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) x \
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) g \
    LEFT JOIN pg_roles r ON r.oid = g.grantee \
    WHERE n.nspname = $1::text AND c.relname = $2::text AND g.grantee <> c.relowner \
        AND (g.grantee = 0 OR r.oid IS NOT NULL) \
    ORDER BY g.column_name NULLS FIRST, 3, 1";

/// Indexes, constraints, triggers and policies that this table's pipeline did not make: what it built
/// is on record, and what the table was created with has a name that PostgreSQL chose for it.
const READ_OTHERS: &str = "\
    SELECT concat(o.kind, ' ', quote_ident(o.name)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    CROSS JOIN LATERAL ( \
        SELECT 'index' AS kind, i.relname::text AS name FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid \
        WHERE x.indrelid = c.oid AND NOT x.indisunique \
        UNION ALL SELECT 'CHECK', k.conname::text FROM pg_constraint k \
        WHERE k.conrelid = c.oid AND k.contype = 'c' AND NOT (array_length(k.conkey, 1) = 1 \
            AND k.conname ~ ('_check[0-9]*$') AND EXISTS (SELECT FROM pg_attribute a \
                WHERE a.attrelid = c.oid AND a.attnum = k.conkey[1] AND a.attname = ANY ($3::text[]))) \
        UNION ALL SELECT 'trigger', t.tgname::text FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
        UNION ALL SELECT 'policy', p.polname::text FROM pg_policy p WHERE p.polrelid = c.oid) o \
    WHERE n.nspname = $1::text AND c.relname = $2::text \
    ORDER BY 1";

/// What goes with a table when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Belongings {
    grants: Vec<Grant>,
    /// Kind and name.
    others: Vec<String>,
}

#[derive(Debug)]
struct Grant {
    privilege: String,
    /// `None` is everybody.
    role: Option<String>,
    grantable: bool,
    column: Option<String>,
}

impl Belongings {
    /// Of a table whose recorded objects have been dropped. `labelled` are the columns whose labels the
    /// table was created to check.
    pub(super) async fn read(client: &Client, name: &TableName, labelled: &[&str]) -> Result<Self, Failure> {
        let TableName { database, table } = name;
        let grants = client.query(READ_GRANTS, &[database, table]).await.map_err(while_doing(DOING))?;
        let others =
            client.query(READ_OTHERS, &[database, table, &labelled]).await.map_err(while_doing(DOING))?;
        Ok(Self {
            grants: grants.iter().map(grant).collect::<Result<_, _>>().map_err(while_doing(DOING))?,
            others: others
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<_, _>>()
                .map_err(while_doing(DOING))?,
        })
    }

    /// Gives the new table what the old one had, and says what it has no more.
    pub(super) async fn give_back(self, client: &Client, model: &TableModel) -> Result<(), Failure> {
        let table = qualified(&model.name)?;
        for grant in &self.grants {
            if let Some(statement) = grant.statement(&table, model)? {
                client.batch_execute(&statement).await.map_err(while_doing("granting what was granted"))?;
            }
        }
        if !self.others.is_empty() {
            let TableName { database, table } = &model.name;
            let gone = self.others.join(", ");
            tracing::warn!(
                table = format!("{database}.{table}"),
                "created anew, without what others had added: {gone}"
            );
        }
        Ok(())
    }
}

fn grant(row: &Row) -> Result<Grant, tokio_postgres::Error> {
    let (public, role) = (row.try_get(1)?, row.try_get(2)?);
    Ok(Grant {
        privilege: row.try_get(0)?,
        role: if public { None } else { Some(role) },
        grantable: row.try_get(3)?,
        column: row.try_get(4)?,
    })
}

impl Grant {
    /// `None` where its column is no more.
    fn statement(&self, table: &str, model: &TableModel) -> Result<Option<String>, Failure> {
        let column = match &self.column {
            Some(name) if model.columns.iter().all(|column| column.name != *name) => return Ok(None),
            Some(name) => format!(" ({})", quote_ident(name)?),
            None => String::new(),
        };
        let role = self.role.as_deref().map_or_else(|| Ok("PUBLIC".to_owned()), quote_ident)?;
        let option = if self.grantable { " WITH GRANT OPTION" } else { "" };
        Ok(Some(format!("GRANT {}{column} ON {table} TO {role}{option}", self.privilege)))
    }
}
