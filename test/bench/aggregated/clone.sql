-- Makes workspaces after the one that Coder built, until there are :total of them beside it: each with its build, its job,
-- its resource and, if the model has one, an agent that is connected, spread over twenty owners. With -v running=N the
-- workspaces after the first N are stopped.
\set ON_ERROR_STOP on
\if :{?running} \else
\set running :total
\endif
BEGIN;

-- copy_rows inserts a copy of the rows of a table for each row of a query that gives column "source", the id of the row
-- to copy, and "change", the columns in which the copy differs. Generated columns are left to the table.
CREATE FUNCTION pg_temp.copy_rows(target regclass, changes text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  columns text;
BEGIN
  SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns
    FROM pg_attribute WHERE attrelid = target AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
  EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM (SELECT (jsonb_populate_record(t, c.change)).* FROM %s t JOIN (%s) c ON c.source = t.id) copies',
    target, columns, columns, target, changes);
END $$;

CREATE TEMP TABLE model AS
  SELECT w.id AS workspace, w.owner_id AS owner, w.organization_id AS organization, b.id AS build, b.job_id AS job, r.id AS resource, a.id AS agent
    FROM workspaces w
    JOIN workspace_builds b ON b.workspace_id = w.id AND b.build_number = 1
    JOIN workspace_resources r ON r.job_id = b.job_id
    LEFT JOIN workspace_agents a ON a.resource_id = r.id
   WHERE w.name = 'hello';

CREATE TEMP TABLE owners AS
  SELECT n, 'owner-' || lpad(n::text, 2, '0') AS name, gen_random_uuid() AS id FROM generate_series(0, 19) n;
UPDATE owners SET id = users.id FROM users WHERE users.username = owners.name;
CREATE TEMP TABLE newcomers AS SELECT * FROM owners WHERE NOT EXISTS (SELECT 1 FROM users WHERE users.id = owners.id);
SELECT pg_temp.copy_rows('users', $$
  SELECT model.owner AS source, jsonb_build_object('id', n.id, 'username', n.name, 'email', n.name || '@bench.invalid', 'status', 'active', 'rbac_roles', '{}'::text[]) AS change
    FROM newcomers n, model $$);
INSERT INTO organization_members (user_id, organization_id, created_at, updated_at) SELECT n.id, model.organization, now(), now() FROM newcomers n, model;

CREATE TEMP TABLE copies AS
  SELECT k AS n, 'ws-' || lpad(k::text, 6, '0') AS name, owners.id AS owner,
         CASE WHEN k <= :running THEN 'start' ELSE 'stop' END AS transition,
         gen_random_uuid() AS workspace, gen_random_uuid() AS build, gen_random_uuid() AS job, gen_random_uuid() AS resource,
         gen_random_uuid() AS agent, gen_random_uuid() AS log_source
    FROM generate_series((SELECT count(*) FROM workspaces WHERE name LIKE 'ws-%') + 1, :total) k
    JOIN owners ON owners.n = k % 20;
SELECT pg_temp.copy_rows('workspaces', $$
  SELECT model.workspace AS source, jsonb_build_object('id', c.workspace, 'name', c.name, 'owner_id', c.owner) AS change FROM copies c, model $$);
SELECT pg_temp.copy_rows('provisioner_jobs', $$
  SELECT model.job AS source, jsonb_build_object('id', c.job, 'initiator_id', c.owner, 'input', jsonb_build_object('workspace_build_id', c.build)) AS change FROM copies c, model $$);
SELECT pg_temp.copy_rows('workspace_builds', $$
  SELECT model.build AS source, jsonb_build_object('id', c.build, 'workspace_id', c.workspace, 'job_id', c.job, 'initiator_id', c.owner, 'transition', c.transition) AS change FROM copies c, model $$);
SELECT pg_temp.copy_rows('workspace_resources', $$
  SELECT model.resource AS source, jsonb_build_object('id', c.resource, 'job_id', c.job) AS change FROM copies c, model $$);
ANALYZE workspaces, provisioner_jobs, workspace_builds, workspace_resources;
-- Nobody reports for these agents, nor for that of the model, so what they last reported lies ahead: they stay connected.
UPDATE workspace_agents
   SET lifecycle_state = 'ready', version = 'v2.36.1', first_connected_at = now(), last_connected_at = now() + interval '1 day', started_at = now(), ready_at = now()
  FROM model WHERE id = model.agent;
SELECT pg_temp.copy_rows('workspace_agents', $$
  SELECT model.agent AS source, jsonb_build_object('id', c.agent, 'resource_id', c.resource, 'auth_token', gen_random_uuid()) AS change FROM copies c, model $$);
INSERT INTO workspace_agent_log_sources (workspace_agent_id, id, created_at, display_name, icon)
  SELECT c.agent, c.log_source, s.created_at, s.display_name, s.icon FROM copies c, model, workspace_agent_log_sources s WHERE s.workspace_agent_id = model.agent;
SELECT pg_temp.copy_rows('workspace_agent_scripts', $$
  SELECT s.id AS source, jsonb_build_object('id', gen_random_uuid(), 'workspace_agent_id', c.agent, 'log_source_id', c.log_source) AS change
    FROM copies c, model JOIN workspace_agent_scripts s ON s.workspace_agent_id = model.agent $$);
COMMIT;
VACUUM ANALYZE;
SELECT count(*) FROM workspaces;
