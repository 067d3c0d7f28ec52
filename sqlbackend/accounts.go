package sqlbackend

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Statements about accounts that the frontend lacks: SET PASSWORD, SET ROLE, SET DEFAULT ROLE, RENAME USER, SHOW CREATE USER,
// ALTER USER … ACCOUNT LOCK.

// account is the name of a user or role.
type account struct{ user, host string }

func (a account) key() mysql_db.UserPrimaryKey {
	return mysql_db.UserPrimaryKey{User: a.user, Host: a.host}
}

// String is the account as messages name it.
func (a account) String() string { return "'" + a.user + "'@'" + a.host + "'" }

// quoted is the account as SHOW CREATE USER and CURRENT_ROLE name it.
func (a account) quoted() string { return "`" + a.user + "`@`" + a.host + "`" }

// account consumes user[@host]; own says that it is CURRENT_USER.
func (s *tokens) account() (a account, own, ok bool) {
	if s.kind != sqlparser.STRING && s.takeWord("current_user") {
		return account{}, true, !s.take('(') || s.take(')')
	}
	a.host = "%"
	if a.user, ok = s.textOrName(); ok && s.take('@') {
		a.host, ok = s.textOrName()
		a.host = strings.ToLower(a.host)
	}
	return a, false, ok
}

// accounts consumes a list of accounts.
func (s *tokens) accounts() ([]account, bool) {
	var list []account
	for {
		a, own, ok := s.account()
		if !ok || own {
			return nil, false
		}
		list = append(list, a)
		if !s.take(',') {
			return list, true
		}
	}
}

// ownAccount is the account that the session has logged in as.
func (c *Conn) ownAccount() account {
	client := c.Client()
	reader := c.provider.grants.Reader()
	defer reader.Close()
	if u := c.provider.grants.GetUser(reader, client.User, client.Address, false); u != nil {
		return account{u.User, u.Host}
	}
	return account{client.User, client.Address}
}

// changeUser changes an account; failed is the error if there is none such.
func (c *Conn) changeUser(ctx *sql.Context, a account, failed error, change func(*mysql_db.User) error) error {
	grants := c.provider.grants
	ed := grants.Editor()
	defer ed.Close()
	old, ok := ed.GetUser(a.key())
	if !ok {
		return failed
	}
	with := *old
	if err := change(&with); err != nil {
		return err
	}
	ed.RemoveUser(a.key())
	ed.PutUser(&with)
	return grants.Persist(ctx, ed)
}

// setAccount reads what follows SET: PASSWORD, ROLE or DEFAULT ROLE.
func (s *tokens) setAccount() sqlparser.Statement {
	switch {
	case s.takeWord("password"):
		return s.setPassword()
	case s.takeWord("role"):
		return s.setRole()
	case s.takeWord("default") && s.takeWord("role"):
		return s.setDefaultRole()
	}
	return nil
}

// setPassword reads [FOR account] = 'text'.
func (s *tokens) setPassword() sqlparser.Statement {
	own, of := true, account{}
	if s.takeWord("for") {
		var ok bool
		if of, own, ok = s.account(); !ok {
			return nil
		}
	}
	if !s.take('=') || s.kind != sqlparser.STRING {
		return nil
	}
	password, _ := s.textOrName()
	n := &serverStatement{name: "set password", commits: true, run: func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		if own {
			of = c.ownAccount()
		}
		return nil, c.changeUser(ctx, of, newError(1133, "Can't find any matching row in the user table"), func(u *mysql_db.User) (err error) {
			u.AuthString, err = authString(u.Plugin, password)
			return err
		})
	}}
	if own {
		return n.inject(anybody())
	}
	return n.inject(sqlparser.AuthInformation{AuthType: sqlparser.AuthType_ALTER_USER, TargetType: sqlparser.AuthTargetType_Ignore,
		TargetNames: []string{of.user, of.host}})
}

// authString is what a password is kept as.
func authString(plugin, password string) (string, error) {
	if password == "" {
		return "", nil
	}
	switch plugin {
	case string(mysql.CachingSha2Password):
		return plan.NewCachingSha2PasswordAuthentication(password).AuthString()
	case string(mysql.MysqlNativePassword):
		return plan.NewDefaultAuthentication(password).AuthString()
	}
	return "", newError(1699, "SET PASSWORD has no significance for user as authentication plugin does not support it.")
}

// roleChoice is what SET ROLE asks for.
type roleChoice struct {
	kind  string // "default", "none", "all", or "" for those of list
	list  []account
	minus bool // all but those of list
}

// setRole reads DEFAULT | NONE | ALL [EXCEPT list] | list.
func (s *tokens) setRole() sqlparser.Statement {
	choice, ok := s.roles(true)
	if !ok {
		return nil
	}
	n := &serverStatement{name: "set role", run: func(_ *sql.Context, c *Conn) ([]sql.Row, error) {
		active, err := c.provider.choose(c.ownAccount(), choice)
		if err != nil {
			return nil, err
		}
		c.roles = &active
		c.BaseSession.SetPrivilegeSet(nil, 0) // computed anew
		return nil, nil
	}}
	return n.inject(anybody())
}

// roles reads a choice of roles.
func (s *tokens) roles(except bool) (c roleChoice, ok bool) {
	for _, kind := range []string{"default", "none", "all"} {
		if s.kind != sqlparser.STRING && s.takeWord(kind) {
			c.kind = kind
			if kind == "all" && except && s.takeWord("except") {
				c.minus = true
				c.list, ok = s.accounts()
				return c, ok
			}
			return c, true
		}
	}
	c.list, ok = s.accounts()
	return c, ok
}

// setDefaultRole reads {NONE | ALL | list} TO list.
func (s *tokens) setDefaultRole() sqlparser.Statement {
	choice, ok := s.roles(false)
	if !ok || choice.kind == "default" || !s.takeWord("to") {
		return nil
	}
	to, ok := s.accounts()
	if !ok {
		return nil
	}
	n := &serverStatement{name: "set default role", commits: true, run: func(_ *sql.Context, c *Conn) ([]sql.Row, error) {
		p := c.provider
		for _, a := range to {
			roles, err := p.choose(a, choice)
			if err != nil {
				return nil, err
			}
			p.mu.Lock()
			p.defaultRoles[a] = roles
			p.mu.Unlock()
		}
		return nil, nil
	}}
	return n.inject(globally(sqlparser.AuthType_CREATE_USER))
}

// grantedRoles are the roles of an account; false if there is no such account.
func (p *Provider) grantedRoles(a account) ([]account, bool) {
	reader := p.grants.Reader()
	defer reader.Close()
	if _, ok := reader.GetUser(a.key()); !ok {
		return nil, false
	}
	var roles []account
	for _, e := range reader.GetToUserRoleEdges(mysql_db.RoleEdgesToKey{ToHost: a.host, ToUser: a.user}) {
		roles = append(roles, account{e.FromUser, e.FromHost})
	}
	slices.SortFunc(roles, func(a, b account) int { return strings.Compare(a.String(), b.String()) })
	return roles, true
}

// choose returns the roles that a choice is for an account. Error 3530 if one is not granted to it.
func (p *Provider) choose(a account, choice roleChoice) ([]account, error) {
	granted, ok := p.grantedRoles(a)
	if !ok {
		return nil, newError(3523, "Unknown authorization ID `%s`@`%s`", a.user, a.host)
	}
	for _, r := range choice.list {
		if !choice.minus && !slices.Contains(granted, r) {
			return nil, newError(3530, "%s is not granted to %s", r.quoted(), a.quoted())
		}
	}
	switch choice.kind {
	case "none":
		return nil, nil
	case "default":
		return p.rolesAtLogin(a, granted), nil
	case "all":
		return slices.DeleteFunc(granted, func(r account) bool { return choice.minus && slices.Contains(choice.list, r) }), nil
	}
	return choice.list, nil
}

// rolesAtLogin are the roles that are active when an account logs in: those of SET DEFAULT ROLE, or all it has.
func (p *Provider) rolesAtLogin(a account, granted []account) []account {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if roles, ok := p.defaultRoles[a]; ok {
		return slices.DeleteFunc(slices.Clone(roles), func(r account) bool { return !slices.Contains(granted, r) })
	}
	return granted
}

// activeRoles are the session's active roles.
func (c *Conn) activeRoles() []account {
	own := c.ownAccount()
	granted, _ := c.provider.grantedRoles(own)
	if c.roles == nil {
		return c.provider.rolesAtLogin(own, granted)
	}
	return slices.DeleteFunc(slices.Clone(*c.roles), func(r account) bool { return !slices.Contains(granted, r) })
}

// limitRoles takes the privileges of roles that are not active from the session. The frontend gives it those of all.
func (c *Conn) limitRoles(ctx *sql.Context) {
	if c.provider == nil || c.provider.grants == nil || !c.provider.grants.Enabled() {
		return
	}
	c.provider.mu.RLock()
	limited := c.roles != nil || len(c.provider.defaultRoles) > 0
	c.provider.mu.RUnlock()
	if !limited {
		return
	}
	own := c.ownAccount()
	granted, ok := c.provider.grantedRoles(own)
	active := c.activeRoles()
	if !ok || len(active) == len(granted) {
		return
	}
	// Why a session beside: only so is the number known that says for how long a set of privileges holds.
	beside := sql.NewBaseSessionWithClientServer("", c.Client(), c.ID())
	c.provider.grants.UserActivePrivilegeSet(sql.NewContext(ctx, sql.WithSession(beside)))
	_, counter := beside.GetPrivilegeSet()
	reader := c.provider.grants.Reader()
	defer reader.Close()
	u, ok := reader.GetUser(own.key())
	if !ok {
		return
	}
	some := u.PrivilegeSet.Copy()
	for _, r := range active {
		if role, ok := reader.GetUser(r.key()); ok {
			some.UnionWith(role.PrivilegeSet)
		}
	}
	c.SetPrivilegeSet(some, counter)
}

// currentRole is CURRENT_ROLE().
func currentRole(ctx *sql.Context) string {
	c := connOf(ctx)
	if c == nil || c.provider == nil || c.provider.grants == nil {
		return "NONE"
	}
	var names []string
	for _, r := range c.activeRoles() {
		names = append(names, r.quoted())
	}
	if len(names) == 0 {
		return "NONE"
	}
	return strings.Join(names, ",")
}

// renameUser reads USER old TO new, ….
func (s *tokens) renameUser() sqlparser.Statement {
	if !s.takeWord("user") {
		return nil
	}
	var from, to []account
	for {
		old, own1, ok1 := s.account()
		if !ok1 || own1 || !s.takeWord("to") {
			return nil
		}
		fresh, own2, ok2 := s.account()
		if !ok2 || own2 {
			return nil
		}
		from, to = append(from, old), append(to, fresh)
		if !s.take(',') {
			break
		}
	}
	n := &serverStatement{name: "rename user", commits: true, run: func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		return nil, c.renameUsers(ctx, from, to)
	}}
	return n.inject(globally(sqlparser.AuthType_CREATE_USER))
}

// renameUsers renames all accounts or none.
func (c *Conn) renameUsers(ctx *sql.Context, from, to []account) error {
	grants := c.provider.grants
	ed := grants.Editor()
	defer ed.Close()
	users := map[account]*mysql_db.User{}
	ed.VisitUsers(func(u *mysql_db.User) { users[account{u.User, u.Host}] = u })
	for i := range from {
		u := users[from[i]]
		if u == nil || users[to[i]] != nil {
			return newError(1396, "Operation RENAME USER failed for %s", from[i])
		}
		with := *u
		with.User, with.Host = to[i].user, to[i].host
		delete(users, from[i])
		users[to[i]] = &with
	}
	var edges []mysql_db.RoleEdge
	ed.VisitRoleEdges(func(e *mysql_db.RoleEdge) { edges = append(edges, *e) })
	for i := range from {
		u, _ := ed.GetUser(from[i].key())
		with := *u
		with.User, with.Host = to[i].user, to[i].host
		ed.RemoveUser(from[i].key())
		ed.PutUser(&with)
		for j := range edges {
			e := &edges[j]
			old := *e
			if e.FromUser == from[i].user && e.FromHost == from[i].host {
				e.FromUser, e.FromHost = to[i].user, to[i].host
			}
			if e.ToUser == from[i].user && e.ToHost == from[i].host {
				e.ToUser, e.ToHost = to[i].user, to[i].host
			}
			if *e != old {
				ed.RemoveRoleEdge(mysql_db.RoleEdgesPrimaryKey{FromHost: old.FromHost, FromUser: old.FromUser, ToHost: old.ToHost, ToUser: old.ToUser})
				renamed := *e
				ed.PutRoleEdge(&renamed)
			}
		}
		c.provider.mu.Lock()
		if roles, ok := c.provider.defaultRoles[from[i]]; ok {
			delete(c.provider.defaultRoles, from[i])
			c.provider.defaultRoles[to[i]] = roles
		}
		c.provider.mu.Unlock()
	}
	return grants.Persist(ctx, ed)
}

// lockUser reads USER [IF EXISTS] list ACCOUNT {LOCK | UNLOCK}.
func (s *tokens) lockUser() sqlparser.Statement {
	if !s.takeWord("user") {
		return nil
	}
	ifExists := s.takeWord("if") && s.takeWord("exists")
	list, ok := s.accounts()
	if !ok || !s.takeWord("account") {
		return nil
	}
	lock := s.takeWord("lock")
	if !lock && !s.takeWord("unlock") {
		return nil
	}
	n := &serverStatement{name: "alter user", commits: true, run: func(ctx *sql.Context, c *Conn) ([]sql.Row, error) {
		for _, a := range list {
			failed := newError(1396, "Operation ALTER USER failed for %s", a)
			err := c.changeUser(ctx, a, failed, func(u *mysql_db.User) error {
				u.Locked = lock
				return nil
			})
			if err == error(failed) && ifExists {
				ctx.Warn(3162, "Authorization ID %s does not exist.", a)
				err = nil
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	return n.inject(globally(sqlparser.AuthType_CREATE_USER))
}

// lockNew locks the accounts that CREATE USER … ACCOUNT LOCK has made.
func (c *Conn) lockNew(ctx *sql.Context, n *plan.CreateUser) error {
	for _, u := range n.Users {
		a := account{u.UserName.Name, u.UserName.Host}
		if a.host == "" {
			a.host = "%"
		}
		err := c.changeUser(ctx, a, nil, func(u *mysql_db.User) error {
			u.Locked = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// showCreateUser reads USER account.
func (s *tokens) showCreateUser() sqlparser.Statement {
	if !s.takeWord("user") {
		return nil
	}
	of, own, ok := s.account()
	if !ok {
		return nil
	}
	n := &serverStatement{name: "show create user", schema: sql.Schema{textColumn("CREATE USER", 1024)}}
	if !own {
		n.schema[0].Name = "CREATE USER for " + of.user + "@" + of.host
	}
	n.run = func(_ *sql.Context, c *Conn) ([]sql.Row, error) {
		a := of
		if own {
			a = c.ownAccount()
		}
		reader := c.provider.grants.Reader()
		defer reader.Close()
		u, ok := reader.GetUser(a.key())
		if !ok {
			return nil, newError(1396, "Operation SHOW CREATE USER failed for %s", a)
		}
		return []sql.Row{sql.NewRow(createUserText(a, u))}, nil
	}
	if own {
		return n.inject(anybody())
	}
	return n.inject(sqlparser.AuthInformation{AuthType: sqlparser.AuthType_ALTER_USER, TargetType: sqlparser.AuthTargetType_Ignore,
		TargetNames: []string{of.user, of.host}})
}

// createUserText is the statement that would make an account.
func createUserText(a account, u *mysql_db.User) string {
	with, locked := "IDENTIFIED WITH '"+u.Plugin+"'", "UNLOCK"
	if u.AuthString != "" {
		with += " AS '" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(u.AuthString) + "'"
	}
	if u.Locked {
		locked = "LOCK"
	}
	require := "NONE"
	switch u.SslType {
	case "ANY":
		require = "SSL"
	case "X509":
		require = "X509"
	case "SPECIFIED":
		require = ""
		for _, part := range [][2]string{{"SUBJECT", u.X509Subject}, {"ISSUER", u.X509Issuer}, {"CIPHER", u.SslCipher}} {
			if part[1] != "" {
				require = strings.TrimSpace(require + " " + part[0] + " '" + part[1] + "'")
			}
		}
	}
	return fmt.Sprintf("CREATE USER %s %s REQUIRE %s PASSWORD EXPIRE DEFAULT ACCOUNT %s PASSWORD HISTORY DEFAULT "+
		"PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT", a.quoted(), with, require, locked)
}

// lockedAuth is the frontend's authentication, which tells those who know the password of a locked account that it is.
type lockedAuth struct {
	mysql.AuthServer
	grants *mysql_db.MySQLDb
}

// AuthMethods implements mysql.AuthServer.
func (l lockedAuth) AuthMethods() []mysql.AuthMethod {
	methods := slices.Clone(l.AuthServer.AuthMethods())
	for i, m := range methods {
		methods[i] = lockedMethod{AuthMethod: m, grants: l.grants}
	}
	return methods
}

// lockedMethod is one of its methods.
type lockedMethod struct {
	mysql.AuthMethod
	grants *mysql_db.MySQLDb
}

// HandleAuthPluginData implements mysql.AuthMethod. The frontend refuses locked accounts before it looks at the password, so
// that one is looked at as if it were not locked.
func (l lockedMethod) HandleAuthPluginData(conn *mysql.Conn, user string, sent, received []byte, addr net.Addr) (mysql.Getter, error) {
	found := l.lockedUser(user, addr)
	if found == nil {
		return l.AuthMethod.HandleAuthPluginData(conn, user, sent, received, addr)
	}
	open := mysql_db.CreateEmptyMySQLDb()
	open.SetEnabled(true)
	ed := open.Editor()
	ed.PutUser(found)
	ed.Close()
	for _, m := range open.AuthMethods() {
		if m.Name() != l.Name() {
			continue
		}
		if _, err := m.HandleAuthPluginData(conn, user, sent, received, addr); err != nil {
			return nil, err
		}
		break
	}
	return nil, newError(3118, "Access denied for user %s. Account is locked.", account{found.User, found.Host})
}

// lockedUser returns a copy, not locked, of the account a client would log in as, if that is locked.
func (l lockedMethod) lockedUser(user string, addr net.Addr) *mysql_db.User {
	host := "localhost"
	if tcp, ok := addr.(*net.TCPAddr); ok {
		host = tcp.IP.String()
	}
	reader := l.grants.Reader()
	defer reader.Close()
	u := l.grants.GetUser(reader, user, host, false)
	if u == nil || !u.Locked {
		return nil
	}
	with := *u
	with.Locked = false
	return &with
}
