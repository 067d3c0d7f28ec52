package sqlbackend_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"lancesql/sqlbackend"
)

func TestTmpQ(t *testing.T) {
	r := start(t, "", sqlbackend.ServerConfig{})
	run(t, r.open(""), "CREATE DATABASE d")
	db := r.open("d")
	db.SetMaxOpenConns(1)
	f, _ := os.Open("/tmp/q.sql")
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		q := strings.TrimSpace(sc.Text())
		if q == "" || strings.HasPrefix(q, "#") {
			continue
		}
		out, err := func() (o string, e error) {
			rows, err := db.Query(q)
			if err != nil {
				return "", err
			}
			defer rows.Close()
			for {
				cols, _ := rows.Columns()
				for rows.Next() {
					v := make([]any, len(cols))
					p := make([]any, len(cols))
					for i := range v {
						p[i] = &v[i]
					}
					rows.Scan(p...)
					for i := range v {
						if b, ok := v[i].([]byte); ok {
							o += string(b)
						} else if v[i] != nil {
							o += fmt.Sprint(v[i])
						} else {
							o += "NULL"
						}
						o += " | "
					}
					o += "// "
				}
				if rows.Err() != nil {
					return o, rows.Err()
				}
				if !rows.NextResultSet() {
					return o, rows.Err()
				}
				o += " ## "
			}
		}()
		if len(q) > 230 {
			q = q[:230]
		}
		println(">", q, "\n      =>", out)
		if err != nil {
			println("      ERR", err.Error())
		}
	}
}
