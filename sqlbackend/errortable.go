package sqlbackend

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// frontendErrors is the table of the frontend's error kinds: first match wins. It is a function because the kinds are
// variables of other packages; an error path can afford to build it.
func frontendErrors() []frontendError {
	return []frontendError{
		// names
		{kind: sql.ErrTableNotFound, num: 1146, text: "Table '{0}' doesn't exist"},
		{kind: sql.ErrUnknownTable, num: 1051},
		{kind: sql.ErrTableAlreadyExists, num: 1050, text: "Table '{0}' already exists"},
		{kind: sql.ErrDatabaseExists, num: 1007, text: "Can't create database '{0}'; database exists"},
		{kind: sql.ErrDatabaseNotFound, num: 1049, text: "Unknown database '{0}'"},
		{kind: sql.ErrNoDatabaseSelected, num: 1046, text: "No database selected"},
		{kind: sql.ErrInvalidDatabaseName, num: 1102, text: "Incorrect database name '{0}'"},
		{kind: sql.ErrColumnNotFound, num: 1054, text: "Unknown column '{0}' in 'field list'"},
		{kind: sql.ErrTableColumnNotFound, num: 1054, text: "Unknown column '{0}.{1}' in 'field list'"},
		{kind: sql.ErrUnknownColumn, num: 1054},
		{kind: sql.ErrMisusedAlias, num: 1054, text: "Unknown column '{0}' in 'field list'"},
		{kind: sql.ErrAmbiguousColumnName, num: 1052, text: "Column '{0}' in field list is ambiguous"},
		{kind: sql.ErrAmbiguousColumnOrAliasName, num: 1052, text: "Column '{0}' in field list is ambiguous"},
		{kind: sql.ErrAmbiguousColumnInOrderBy, num: 1052, text: "Column '{0}' in order clause is ambiguous"},
		{kind: sql.ErrColumnExists, num: 1060, text: "Duplicate column name '{0}'"},
		{kind: sql.ErrDuplicateColumn, num: 1060, text: "Duplicate column name '{0}'"},
		{kind: sql.ErrDuplicateAliasOrTable, num: 1066, text: "Not unique table/alias: '{0}'"},
		{kind: sql.ErrColumnSpecifiedTwice, num: 1110, text: "Column '{0}' specified twice"},
		{kind: sql.ErrIdentifierIsTooLong, num: 1059},
		{kind: sql.ErrInvalidIdentifier, num: 1103, text: "Incorrect table name '{0}'"},
		{kind: sql.ErrViewDoesNotExist, num: 1051, text: "Unknown table '{0}.{1}'"},
		{kind: sql.ErrExistingView, num: 1050, text: "Table '{1}' already exists"},
		{kind: sql.ErrInvalidRefInView, num: 1356},
		{kind: sql.ErrPartitionNotFound, num: 1526},

		// routines, functions, savepoints, prepared statements
		{kind: sql.ErrFunctionNotFound, num: 1305, text: "FUNCTION {0} does not exist"},
		{kind: sql.ErrTableFunctionNotFound, num: 1305, text: "FUNCTION {0} does not exist"},
		{kind: sql.ErrStoredProcedureDoesNotExist, num: 1305, text: "PROCEDURE {0} does not exist"},
		{kind: sql.ErrSavepointDoesNotExist, num: 1305},
		{kind: sql.ErrStoredProcedureAlreadyExists, num: 1304, text: "PROCEDURE {0} already exists"},
		{kind: sql.ErrTriggerDoesNotExist, num: 1360, text: "Trigger does not exist"},
		{kind: sql.ErrEventDoesNotExist, num: 1539},
		{kind: sql.ErrEventAlreadyExists, num: 1537},
		{kind: sql.ErrInvalidArgumentNumber, num: 1582, text: "Incorrect parameter count in the call to native function '{0}'"},
		{kind: sql.ErrCallIncorrectParameterCount, num: 1318, text: "Incorrect number of arguments for PROCEDURE {0}; expected {1}, got {2}"},
		{kind: sql.ErrDeclareConditionOrderInvalid, num: 1337, text: "Variable or condition declaration after cursor or handler declaration"},
		{kind: sql.ErrDeclareVariableOrderInvalid, num: 1337, text: "Variable or condition declaration after cursor or handler declaration"},
		{kind: sql.ErrDeclareCursorOrderInvalid, num: 1338, text: "Cursor declaration after handler declaration"},
		{kind: sql.ErrDeclareHandlerOrderInvalid, num: 1064},
		{kind: sql.ErrDeclareConditionNotFound, num: 1319, text: "Undefined CONDITION: {0}"},
		{kind: sql.ErrDeclareConditionDuplicate, num: 1332, text: "Duplicate condition: {0}"},
		{kind: sql.ErrDeclareVariableDuplicate, num: 1331, text: "Duplicate variable: {0}"},
		{kind: sql.ErrDeclareCursorDuplicate, num: 1333, text: "Duplicate cursor: {0}"},
		{kind: sql.ErrDeclareHandlerDuplicate, num: 1413, text: "Duplicate handler declared in the same block"},
		{kind: sql.ErrDeclareHandlerUndo, num: 1064},
		{kind: sql.ErrLoopRedefinition, num: 1309, text: "Redefining label {0}"},
		{kind: sql.ErrLoopLabelNotFound, num: 1308, text: "{0} with no matching label: {1}"},
		{kind: sql.ErrCursorNotFound, num: 1324, text: "Undefined CURSOR: {0}"},
		{kind: sql.ErrCursorAlreadyOpen, num: 1325, text: "Cursor is already open"},
		{kind: sql.ErrCursorNotOpen, num: 1326, text: "Cursor is not open"},
		{kind: sql.ErrFetchIncorrectCount, num: 1328, text: "Incorrect number of FETCH variables"},
		{kind: sql.ErrSignalOnlySqlState, num: 1646, text: "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE"},
		{kind: sql.ErrInvalidArgument, num: 1210},
		{kind: sql.ErrInvalidArgumentDetails, num: 1210},
		{kind: sql.ErrUnknownPreparedStatement, num: 1243},
		{kind: sql.ErrUnboundPreparedStatementVariable, num: 1210, text: "Incorrect arguments to EXECUTE"},

		// values
		{kind: sql.ErrIncompatibleDefaultType, num: 1067, text: "Invalid default value"},
		{kind: sql.ErrPrimaryKeyViolation, special: duplicate},
		{kind: sql.ErrUniqueKeyViolation, special: duplicate},
		{kind: sql.ErrDuplicateEntry, num: 1062, text: "Duplicate entry for key '{0}'"},
		{kind: sql.ErrInsertIntoNonNullableProvidedNull, num: 1048, text: "Column '{0}' cannot be null"},
		{kind: sql.ErrInsertIntoNonNullableDefaultNullColumn, num: 1364},
		{kind: sql.ErrColumnDefaultReturnedNull, num: 1048},
		{kind: sql.ErrColValCountMismatch, num: 1136},
		{kind: sql.ErrInsertIntoMismatchValueCount, num: 1136, text: "Column count doesn't match value count at row 1"},
		{kind: sql.ErrUnexpectedRowLength, num: 1136, text: "Column count doesn't match value count at row 1"},
		{kind: sql.ErrValueOutOfRange, special: outOfRange},
		{kind: types.ErrConvertToDecimalLimit, num: 1264, text: "Out of range value for column of type DECIMAL"},
		{kind: types.ErrConvertingToYear, num: 1264},
		{kind: types.ErrLengthBeyondLimit, num: 1406, text: "Data too long for column '{1}' at row 1"},
		{kind: types.ErrLengthTooLarge, num: 1074},
		{kind: types.ErrConvertingToTime, num: 1292},
		{kind: types.ErrConvertingToTimeOutOfRange, num: 1292, text: "Incorrect datetime value: '{0}'"},
		{kind: types.ErrConvertingToTimeType, num: 1292, text: "Incorrect time value: '{0}'"},
		{kind: sql.ErrTruncatedIncorrect, num: 1292},
		{kind: types.ErrConvertingToDecimal, num: 1366, text: "Incorrect decimal value: '{0}'"},
		{kind: sql.ErrInvalidValue, num: 1366, text: "Incorrect {1} value: '{0}'"},
		{kind: sql.ErrInvalidValueType, num: 1366},
		{kind: types.ErrBadCharsetString, num: 1366},
		{kind: sql.ErrCharSetInvalidString, num: 1366},
		{kind: sql.ErrCharSetFailedToEncode, num: 1366},
		{kind: sql.ErrCollationMalformedString, num: 1366},
		{kind: types.ErrDataTruncatedForColumn, num: 1265},
		{kind: types.ErrDataTruncatedForColumnAtRow, num: 1265},
		{kind: types.ErrConvertingToEnum, num: 1265},
		{kind: sql.ErrConvertingToSet, num: 1265},
		{kind: sql.ErrInvalidSetValue, num: 1265},
		{kind: sql.ErrTooLargeForSet, num: 1265},
		{kind: sql.ErrInvalidJSONText, num: 3141},
		{kind: sql.ErrInvalidJson, num: 3140},
		{kind: sql.ErrNotMatchingSRIDWithColName, num: 3643},
		{kind: sql.ErrNotMatchingSRID, num: 3643},
		{kind: sql.ErrInvalidGISData, num: 3037, text: "Invalid GIS data provided to function {0}."},
		{kind: sql.ErrSpatialTypeConversion, num: 1416, text: "Cannot get geometry object from data you send to the GEOMETRY field"},
		{kind: sql.ErrCheckConstraintViolated, num: 3819, text: "Check constraint '{0}' is violated."},
		{kind: sql.ErrCheckConstraintInvalidatedByColumnAlter, num: 3959, text: "Check constraint '{1}' uses column '{0}', hence column cannot be dropped or renamed."},
		{kind: sql.ErrForeignKeyChildViolation, num: 1452},
		{kind: sql.ErrForeignKeyNotResolved, num: 1452},
		{kind: sql.ErrForeignKeyParentViolation, num: 1451},

		// statements
		{kind: sql.ErrSyntaxError, num: 1064, text: "You have an error in your SQL syntax; {0}"},
		{kind: sql.ErrInvalidSyntax, num: 1064, text: "You have an error in your SQL syntax; {0}"},
		{kind: sql.ErrUnsupportedSyntax, num: 1235, text: "Not supported yet: {0}"},
		{kind: sql.ErrUnsupportedFeature, num: 1235, text: "Not supported yet: {0}"},
		{kind: sql.ErrTriggersNotSupported, num: 1235},
		{kind: sql.ErrStoredProceduresNotSupported, num: 1235},
		{kind: sql.ErrEventsNotSupported, num: 1235},
		{kind: sql.ErrViewsNotSupported, num: 1235},
		{kind: sql.ErrTemporaryTableNotSupported, num: 1235},
		{kind: sql.ErrNoForeignKeySupport, num: 1235, text: "This version of lancesql doesn't yet support 'FOREIGN KEY'"},
		{kind: sql.ErrAlterTableNotSupported, num: 1235},
		{kind: sql.ErrAlterTableCommentNotSupported, num: 1235},
		{kind: sql.ErrAlterTableCollationNotSupported, num: 1235},
		{kind: sql.ErrRenameTableNotSupported, num: 1235},
		{kind: plan.ErrNotIndexable, num: 1235},
		{kind: plan.ErrInsertIntoNotSupported, num: 1235},
		{kind: plan.ErrReplaceIntoNotSupported, num: 1235},
		{kind: plan.ErrUpdateNotSupported, num: 1235},
		{kind: plan.ErrDeleteFromNotSupported, num: 1235},
		{kind: plan.ErrTruncateNotSupported, num: 1235},
		{kind: sql.ErrColumnNumberDoesNotMatch, num: 1222},
		{kind: planbuilder.ErrSelectsDifferentLength, num: 1222, text: "The used SELECT statements have a different number of columns"},
		{kind: sql.ErrExpectedSingleRow, num: 1242, text: "Subquery returns more than 1 row"},
		{kind: sql.ErrMoreThanOneRow, num: 1172},
		{kind: sql.ErrInvalidOperandColumns, num: 1241, text: "Operand should contain {0} column(s)"},
		{kind: sql.ErrNonAggregatedColumnWithoutGroupBy, num: 1140},
		{kind: analyzererrors.ErrValidationGroupBy, num: 1055},
		{kind: analyzererrors.ErrValidationGroupByOrderBy, num: 1055},
		{kind: analyzererrors.ErrReadOnlyDatabase, num: 1290},
		{kind: analyzererrors.ErrInvalidRowLength, num: 1118},
		{kind: sql.ErrNoTablesUsed, num: 1096},
		{kind: sql.ErrTriggerTableInUse, num: 1442, text: "Can't update table '{0}' in stored function/trigger because it is already used by statement which invoked this stored function/trigger."},
		{kind: sql.ErrInvalidUpdateOfOldRow, num: 1362, text: "Updating of OLD row is not allowed in trigger"},
		{kind: sql.ErrInvalidUpdateInAfterTrigger, num: 1362, text: "Updating of NEW row is not allowed in after trigger"},
		{kind: sql.ErrInvalidUseOfOldNew, num: 1363},

		// definitions
		{kind: sql.ErrInvalidConstraintFunctionNotSupported, num: 3814, text: "An expression of a check constraint contains disallowed function: {0}."},
		{kind: sql.ErrDuplicateCheckName, num: 3822, text: "Duplicate check constraint name '{0}'."},
		{kind: sql.ErrMultiplePrimaryKeysDefined, num: 1068, text: "Multiple primary key defined"},
		{kind: planbuilder.ErrPrimaryKeyOnNullField, num: 1171},
		{kind: sql.ErrWrongAutoKey, num: 1075, text: "Incorrect table definition; there can be only one auto column and it must be defined as a key"},
		{kind: sql.ErrInvalidAutoIncCols, num: 1075, text: "Incorrect table definition; there can be only one auto column and it must be defined as a key"},
		{kind: sql.ErrInvalidColumnSpecifier, num: 1063},
		{kind: sql.ErrKeyColumnDoesNotExist, num: 1072, text: "Key column '{0}' doesn't exist in table"},
		{kind: sql.ErrUnknownIndexColumn, num: 1072, text: "Key column '{0}' doesn't exist in table"},
		{kind: sql.ErrCantDropFieldOrKey, num: 1091, text: "Can't DROP '{0}'; check that column/key exists"},
		{kind: sql.ErrIndexNotFound, num: 1091, text: "Can't DROP '{0}'; check that column/key exists"},
		{kind: plan.ErrIndexNotFound, num: 1091, text: "Can't DROP '{0}'; check that column/key exists"},
		{kind: sql.ErrCantDropIndex, num: 1553},
		{kind: sql.ErrDuplicateKey, num: 1061},
		{kind: sql.ErrTooManyKeyParts, num: 1070},
		{kind: sql.ErrInvalidColumnDefaultValue, num: 1067},
		{kind: sql.ErrInvalidOnUpdate, num: 1294},
		{kind: sql.ErrForeignKeyDropTable, num: 3730},
		{kind: sql.ErrForeignKeyDropIndex, num: 1553},
		{kind: sql.ErrForeignKeyDropColumn, num: 1828},
		{kind: sql.ErrForeignKeyDuplicateName, num: 1826, text: "Duplicate foreign key constraint name '{0}'"},
		{kind: sql.ErrForeignKeyNotFound, num: 1091, text: "Can't DROP '{0}'; check that column/key exists"},
		{kind: sql.ErrForeignKeyColumnCountMismatch, num: 1239},
		{kind: sql.ErrForeignKeyColumnTypeMismatch, num: 3780},
		{kind: sql.ErrForeignKeySetDefault, num: 1215},
		{kind: sql.ErrForeignKeySetNullNonNullable, num: 1830},
		{kind: sql.ErrForeignKeyTypeChange, num: 1832},
		{kind: sql.ErrForeignKeyTypeChangeSetNull, num: 1830},
		{kind: sql.ErrForeignKeyDepthLimit, num: 3008},
		{kind: sql.ErrForeignKeyTextBlob, num: 1170},
		{kind: sql.ErrTruncateReferencedFromForeignKey, num: 1701},
		{kind: sql.ErrUnknownConstraint, num: 3940},
		{kind: sql.ErrForeignKeyMissingReferenceIndex, num: 1822},
		{kind: sql.ErrGeneratedColumnValue, num: 3105},

		// variables, character sets
		{kind: sql.ErrUnknownSystemVariable, num: 1193},
		{kind: sql.ErrSystemVariableReadOnly, num: 1238},
		{kind: sql.ErrSystemVariableSessionOnly, num: 1228},
		{kind: sql.ErrSystemVariableGlobalOnly, num: 1229},
		{kind: sql.ErrInvalidSystemVariableValue, num: 1231},
		{kind: sql.ErrUndeclaredVariable, num: 1327},
		{kind: sql.ErrInvalidTimeZone, num: 1298},
		{kind: sql.ErrCollationUnknown, num: 1273, text: "Unknown collation: '{0}'"},
		{kind: sql.ErrCharSetUnknown, num: 1115, text: "Unknown character set: '{0}'"},
		{kind: sql.ErrCollationInvalidForCharSet, num: 1253},
		{kind: sql.ErrCollationIllegalMix, num: 1267},

		// transactions, modes, privileges
		{kind: sql.ErrReadOnlyTransaction, num: 1792, text: "Cannot execute statement in a READ ONLY transaction."},
		{kind: sql.ErrReadOnly, num: 1290},
		{kind: sql.ErrDatabaseWriteLocked, num: 1290},
		{kind: sql.ErrSecureFilePriv, num: 1290},
		{kind: sql.ErrLockDeadlock, num: 1213, text: "Deadlock found when trying to get lock; try restarting transaction"},
		{kind: sql.ErrDatabaseAccessDeniedForUser, num: 1044},
		{kind: sql.ErrTableAccessDeniedForUser, num: 1142},
		{kind: sql.ErrPrivilegeCheckFailed, num: 1142},
		{kind: sql.ErrGrantUserDoesNotExist, num: 1410},
		{kind: sql.ErrRevokeUserDoesNotExist, num: 1141},
		{kind: sql.ErrShowGrantsUserDoesNotExist, num: 1141},
		{kind: sql.ErrUserCreationFailure, num: 1396},
		{kind: sql.ErrUserAlterFailure, num: 1396},
		{kind: sql.ErrUserDeletionFailure, num: 1396},
		{kind: sql.ErrRoleCreationFailure, num: 1396},
		{kind: sql.ErrRoleDeletionFailure, num: 1396},
	}
}

// sqlState returns the SQLSTATE of a MySQL error number.
func sqlState(num int) string {
	switch num {
	case 1044, 1049, 1055, 1059, 1061, 1063, 1064, 1065, 1066, 1067, 1068, 1070, 1071, 1072, 1074, 1075, 1090, 1091, 1101, 1102, 1103,
		1115, 1118, 1140, 1141, 1142, 1143, 1149, 1163, 1164, 1170, 1171, 1172, 1176, 1226, 1227, 1228, 1229, 1230, 1231, 1234,
		1235, 1239, 1247, 1253, 1273, 1286, 1294, 1303, 1304, 1305, 1308, 1309, 1310,
		1313, 1314, 1318, 1319, 1320, 1322, 1323, 1324, 1327, 1328, 1330, 1331, 1332, 1333, 1337, 1338, 1370, 1403, 1404, 1407, 1410, 1413, 1414, 1437,
		1567, 1582, 1583, 1584, 1630, 1701:
		return "42000"
	case 1022, 1048, 1052, 1062, 1169, 1216, 1217, 1451, 1452, 1557, 1586:
		return "23000"
	case 1050:
		return "42S01"
	case 1051, 1109, 1146:
		return "42S02"
	case 1060:
		return "42S21"
	case 1054:
		return "42S22"
	case 1045:
		return "28000"
	case 1046:
		return "3D000"
	case 1110:
		return "42000"
	case 1136:
		return "21S01"
	case 1222, 1241, 1242:
		return "21000"
	case 1321:
		return "2F005"
	case 1325, 1326:
		return "24000"
	case 1329:
		return "02000"
	case 1339:
		return "20000"
	case 1415:
		return "0A000"
	case 1264, 1690:
		return "22003"
	case 1265:
		return "01000"
	case 1292:
		return "22007"
	case 1365:
		return "22012"
	case 1406:
		return "22001"
	case 1213:
		return "40001"
	case 1317:
		return "70100"
	case 1792:
		return "25006"
	case 1568:
		return "25001"
	case 1040, 1043:
		return "08004"
	case 1047, 1053, 1158, 1159, 1160, 1161:
		return "08S01"
	case 3140, 3141:
		return "22032"
	case 1644:
		return "45000"
	}
	return "HY000"
}
