package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/internal/testkit/oracle"
	"lancesql/internal/testkit/server"
)

// runClient feeds a script to the stock command-line client and returns what it prints in batch form.
func runClient(t *testing.T, srv *server.Server, script string, args ...string) string {
	t.Helper()
	client := oracle.Program(t, "mysql")
	host, port, _ := strings.Cut(srv.Addr(), ":")
	cmd := exec.Command(client, append([]string{"--no-defaults", "--protocol=tcp", "-h", host, "-P", port, "-u", "root", "-B",
		"--default-character-set=utf8mb4"}, args...)...)
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestClient: a first session of the stock client, kill -9, and the same rows.
func TestClient(t *testing.T) {
	srv := server.Start(t, server.Options{})
	out := runClient(t, srv, `
CREATE DATABASE shop CHARACTER SET utf8mb4;
USE shop;
CREATE TABLE item (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, price DECIMAL(8,2), added DATETIME(3));
INSERT INTO item (name, price, added) VALUES ('tea', 3.50, '2024-05-06 07:08:09.123'), ('Brötchen', 0.80, NULL), ('𝄞', NULL, NULL);
UPDATE item SET price = price + 1 WHERE name = 'tea';
DELETE FROM item WHERE id = 3;
REPLACE INTO item VALUES (2, 'roll', 0.90, NULL);
INSERT INTO item (id, name) VALUES (2, 'x') ON DUPLICATE KEY UPDATE name = CONCAT(name, 's');
BEGIN; INSERT INTO item (name) VALUES ('gone'); ROLLBACK;
BEGIN; INSERT INTO item (name, price) VALUES ('cake', 2); UPDATE item SET price = 2.25 WHERE name = 'cake'; COMMIT;
SELECT id > 0 AS numbered, name, price, added FROM item ORDER BY id;
SELECT COUNT(*) AS n, SUM(price) AS total FROM item WHERE price > 1;
SHOW TABLES;
`)
	rows := "numbered\tname\tprice\tadded\n1\ttea\t4.50\t2024-05-06 07:08:09.123\n1\trolls\t0.90\tNULL\n1\tcake\t2.25\tNULL\n"
	require.Equal(t, rows+"n\ttotal\n2\t6.75\nTables_in_shop\nitem\n", out)
	srv.Restart()
	require.Equal(t, rows, runClient(t, srv, "SELECT id > 0 AS numbered, name, price, added FROM shop.item ORDER BY id;"))
	require.Equal(t, rows, runClient(t, srv, "FLUSH TABLES; SELECT id > 0 AS numbered, name, price, added FROM shop.item ORDER BY id;"))
	require.Equal(t, rows, runClient(t, srv, "SELECT id > 0 AS numbered, name, price, added FROM item ORDER BY id;", "shop"))
}
