package sqlbackend

// Version is lancesql's own version.
const Version = "0.1.0"

// ServerVersion is what VERSION(), @@version and the protocol handshake say: the MySQL version whose behaviour is
// followed, then our own.
const ServerVersion = "8.0.40-lancesql-" + Version

// versionComment is @@version_comment.
const versionComment = "lancesql, tables in Lance format"
