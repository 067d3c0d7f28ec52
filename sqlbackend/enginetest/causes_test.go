package enginetest

// causes lists the reasons, in the order in which they are tried.
func causes() []cause {
	return []cause{
		{"alter", "changing the columns of a table is not built: milestone 5", `ALTER TABLE … (ADD|DROP|MODIFY) COLUMN|not primary key alterable|is not alterable|cannot have its (collation|comment) altered`},
		{"plan", "the plan is not the frontend's: costs, index abilities and operators are ours", `join_planning_tests\.go|unexpected plan|_join_types\n|/debug\n|^[A-Za-z]*/explain_`},
		{"time-digits", "TIME(n) keeps and shows n digits of fractions (manual 13.2.6), the frontend's always six", `(?m)^TypesOverWire/TIME$|UNIX_TIMESTAMP_function_preserves_trailing_0s/select_unix_timestamp\(d\)`},
		{"scale", "COALESCE, ROUND and TRUNCATE of exact numbers have all the digits asked for (manual 14.6.2)", `select_coalesce\(1,_0\.0\)|SELECT_TRUNCATE\((122\.00,3|1\.223,100)\)`},
		{"interval-text", "a text plus an interval is a text (manual 14.7, DATE_ADD)", `SELECT_'2018-05-02'_[-+]_INTERVAL`},
		{"distinct-order", "DISTINCT ordered by what is not selected is error 3065 under ONLY_FULL_GROUP_BY (manual 14.19.3)", `(?i)select_distinct_(pk1|pk2|n)_from_.*_order_by_`},
		{"columns", "information_schema.columns shows a DATE without a time of day and text lengths in bytes (manual 28.3.8)", `column_specific_tests_on_information_schema\.columns_table/SELECT_column_name`},
		{"product", "names this server, its version and its variables", `8\.0\.31|"Dolt"|innodb_strict_mode`},
		{"message", "a taken key is reported in MySQL's words", `duplicate (primary|unique) key given: \[`},
		{"key-prefix", "MySQL takes prefixes of columns as a primary key (manual 15.1.20), the frontend's store does not", `primary_key_prefix`},
		{"sum-type", "SUM and AVG of exact numbers are DECIMAL (manual 14.19.1), the frontend's DOUBLE", `(?s)^(ColumnAliases|CreateTable)/.*(1036|double|decimal\()`},
		{"row-size", "MySQL's limit of 65535 bytes a row is not checked", `^RowLimit/|multi_alter_with_invalid_schemas`},
		{"table-status", "SHOW TABLE STATUS tells sizes and times of our own", `^ShowTableStatus`},
		{"ok-packet", "MySQL answers FLUSH with an OK and TRUNCATE with no rows (manual 15.7.8.3, 15.1.37)", `(?s)(^[A-Za-z]*/flush_|^(Truncate|AddDropPks)/.*RowsAffected:0x0)`},
		{"isolation", "SET TRANSACTION holds for the next transaction only and the variable does not show it (manual 15.3.7)", `^Variables/set_transaction`},
		{"statistics", "ANALYZE TABLE keeps no histograms", `column_statistics`},
		{"frontend-only", "procedures of the frontend's own test store", `memory_(admin_only|variadic_add|inout)`},
		{"json-type", "JSON is stored as text, which does not tell DECIMAL from DOUBLE or UNSIGNED from INTEGER", `JSON_TYPE`},
		{"virtual", "VIRTUAL generated columns are stored (docs/sql_compatibility.md)", `base column of a stored generated column|GENERATED ALWAYS AS`},
		{"unique", "UNIQUE keys other than the primary key are not built: milestone 5", `UNIQUE keys other than the primary key|table not found: (xy|uv|pq|rs|vals|ranges|uniq)\b`},
		{"index", "CREATE INDEX is not built: milestone 5", `'(CREATE INDEX|DROP INDEX|ALTER TABLE … RENAME INDEX)'`},
		{"functional-index", "indexes on expressions are not built: milestone 5", `functional indexes`},
		{"check", "ALTER TABLE … ADD CHECK is not built: milestone 5", `ALTER TABLE … (ADD|DROP) CHECK`},
		{"foreign-key", "FOREIGN KEY is not built: milestone 5", `'FOREIGN KEY'|does not support foreign key operations`},
		{"fulltext", "FULLTEXT indexes are not built: milestone 7", `FULLTEXT indexes`},
		{"spatial-index", "SPATIAL indexes are not built", `SPATIAL indexes`},
		{"spatial", "spatial types are not stored: milestone 5", `columns of type (geometry|point|linestring|polygon|multi)`},
		{"vector", "VECTOR columns and indexes are not built: milestone 6", `columns of type VECTOR|VECTOR indexes`},
		{"temporary", "temporary tables are not built: milestone 5", `does not support temporary tables`},
		{"several-tables", "a transaction that writes several tables is not built: milestone 5", `commit spans several tables`},
		{openReason, "not looked into yet", ``},
	}
}
