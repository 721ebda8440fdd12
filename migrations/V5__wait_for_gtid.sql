-- Waiting for a position, for readers of the replica; and the check of a statement's rows, for the
-- pipeline's own statements.

CREATE FUNCTION tidegate.gtid_ranges(set text)
    RETURNS TABLE (source uuid, tag text, gnos int8multirange)
    LANGUAGE plpgsql IMMUTABLE STRICT
    SET search_path = pg_catalog
AS $$
DECLARE
    one text;
    item text;
    number text[];
    bounds int8multirange;
BEGIN
    FOREACH one IN ARRAY string_to_array(regexp_replace(set, '\s', '', 'g'), ',') LOOP
        CONTINUE WHEN one = '';
        IF split_part(one, ':', 1) !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' OR position(':' IN one) = 0 THEN
            RAISE EXCEPTION 'not a GTID set' USING ERRCODE = 'invalid_text_representation';
        END IF;
        source := split_part(one, ':', 1)::uuid;
        tag := '';
        bounds := '{}';
        FOREACH item IN ARRAY (string_to_array(one, ':'))[2:] LOOP
            number := regexp_match(item, '^(\d{1,19})(?:-(\d{1,19}))?$');
            IF number IS NOT NULL THEN
                IF number[1]::numeric < 1
                    OR coalesce(number[2], number[1])::numeric NOT BETWEEN number[1]::numeric AND 9223372036854775806
                THEN
                    RAISE EXCEPTION 'not a GTID set' USING ERRCODE = 'invalid_text_representation';
                END IF;
                bounds := bounds + int8multirange(int8range(
                    number[1]::int8, coalesce(number[2], number[1])::int8, '[]'));
            ELSIF item ~* '^[a-z_][a-z0-9_]{0,31}$' AND (tag = '' OR bounds <> '{}') THEN
                IF bounds <> '{}' THEN
                    gnos := bounds;
                    RETURN NEXT;
                END IF;
                tag := lower(item);
                bounds := '{}';
            ELSE
                RAISE EXCEPTION 'not a GTID set' USING ERRCODE = 'invalid_text_representation';
            END IF;
        END LOOP;
        IF bounds = '{}' THEN
            RAISE EXCEPTION 'not a GTID set' USING ERRCODE = 'invalid_text_representation';
        END IF;
        gnos := bounds;
        RETURN NEXT;
    END LOOP;
END
$$;

COMMENT ON FUNCTION tidegate.gtid_ranges(text) IS 'The transactions of a GTID set as MySQL prints it (uuid:1-5:7:tag:1-3,...): their numbers by server UUID and tag, in several rows where the text names them several times. The tag is empty where there is none.';

CREATE FUNCTION tidegate.gtid_set_includes(set text, subset text)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT
    SET search_path = pg_catalog
AS $$
    SELECT NOT EXISTS (
        SELECT
        FROM (SELECT source, tag, range_agg(r) AS gnos
                FROM tidegate.gtid_ranges(subset) g, unnest(g.gnos) r GROUP BY source, tag) wanted
        LEFT JOIN (SELECT source, tag, range_agg(r) AS gnos
                FROM tidegate.gtid_ranges(set) g, unnest(g.gnos) r GROUP BY source, tag) held
            USING (source, tag)
        WHERE held.gnos IS NULL OR NOT held.gnos @> wanted.gnos)
$$;

COMMENT ON FUNCTION tidegate.gtid_set_includes(text, text) IS 'Whether the first GTID set holds every transaction of the second';

CREATE FUNCTION tidegate.wait_for_gtid(set text, timeout interval, pipeline text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    deadline timestamptz := clock_timestamp() + timeout;
    chosen text := pipeline;
    reached text;
    seen text;
BEGIN
    IF set IS NULL OR timeout IS NULL THEN
        RAISE EXCEPTION 'wait_for_gtid needs a GTID set and a timeout' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'wait_for_gtid would wait for what this transaction never sees'
            USING ERRCODE = 'active_sql_transaction', HINT = 'Call it under READ COMMITTED, as a statement of its own.';
    END IF;
    IF chosen IS NULL THEN
        BEGIN
            SELECT p.name INTO STRICT chosen FROM tidegate.pipeline p;
        EXCEPTION
            WHEN no_data_found THEN
                RAISE EXCEPTION 'there is no pipeline' USING ERRCODE = 'undefined_object';
            WHEN too_many_rows THEN
                RAISE EXCEPTION 'there are several pipelines' USING ERRCODE = 'ambiguous_parameter',
                    HINT = 'Name one as the third argument.';
        END;
    ELSIF NOT EXISTS (SELECT FROM tidegate.pipeline p WHERE p.name = chosen) THEN
        RAISE EXCEPTION 'there is no pipeline of that name' USING ERRCODE = 'undefined_object';
    END IF;
    -- What is no GTID set is an error at once.
    IF tidegate.gtid_set_includes('', set) THEN
        RETURN true;
    END IF;
    LOOP
        SELECT string_agg(concat_ws(',', latest.processed, latest.pooled), ',') INTO reached
        FROM (SELECT DISTINCT ON (c.applier) c.processed, c.pooled FROM tidegate.checkpoint c
              WHERE c.pipeline = chosen ORDER BY c.applier, c.seq DESC) latest;
        IF reached IS DISTINCT FROM seen AND tidegate.gtid_set_includes(reached, set) THEN
            RETURN true;
        END IF;
        seen := reached;
        IF clock_timestamp() >= deadline THEN
            RETURN false;
        END IF;
        -- A look costs little, and a reader waits no more than this longer than it has to.
        PERFORM pg_sleep(least(0.01, greatest(0, extract(epoch FROM deadline - clock_timestamp())::double precision)));
    END LOOP;
END
$$;

COMMENT ON FUNCTION tidegate.wait_for_gtid(text, interval, text) IS 'Waits until the target shows every transaction of a GTID set: true then, false after the timeout. A statement of its own under READ COMMITTED; the next statement sees what was waited for. Prepared XA transactions that are held back count as reached. The pipeline has to be named only where there are several.';

CREATE FUNCTION tidegate.expect_rows(touched bigint, expected bigint)
    RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF touched IS DISTINCT FROM expected THEN
        RAISE EXCEPTION 'a statement touched another number of rows than it must' USING ERRCODE = 'TG001';
    END IF;
    RETURN touched;
END
$$;

COMMENT ON FUNCTION tidegate.expect_rows(bigint, bigint) IS 'Fails the transaction with SQLSTATE TG001 unless the numbers are equal. A commit can then be sent right behind a statement: it can''t commit what the statement did not do.';
