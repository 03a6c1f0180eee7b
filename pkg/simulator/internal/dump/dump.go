// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"encoding/json"
	"reflect"
	"strings"
	"unicode"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Options selects the content of a dump.
type Options struct {
	// Secrets includes API keys and other keys. A dump never contains passwords.
	Secrets bool
}

// Plain converts the values of rows to the types that reading them from a file produces.
func Plain(in Rows) (Rows, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var out Rows
	return out, json.Unmarshal(text, &out)
}

// The rows of a dump are generated from the types of the state, so that no kind of object is missing: every table is
// a list of rows, every row an object with the non-zero fields. A reference to a row is "TABLE/ID" with the internal
// id. Objects that are in no table, such as NICs, are in lists with the name of their type and are referred to as
// "TYPE/N".

// How a field is dumped, unless it is plain.
const (
	DumpNot      = "not"      // not dumped: derived from other fields, or in another part of the world
	dumpSecret   = "secret"   // only with DumpOptions.Secrets
	dumpNever    = "never"    // not dumped, but read if a world file has it
	dumpHarmless = "harmless" // the name looks like a secret, but the value is not one
)

// dumpFields are the fields that are not plain, as TYPE.FIELD.
var dumpFields = map[string]string{
	"state.settings": DumpNot, "state.version": DumpNot, "state.jobs": DumpNot, "state.due": DumpNot, "state.running": DumpNot, "state.outside": DumpNot,
	"jobIndex.pending": DumpNot, "jobIndex.done": DumpNot, "state.apiKeys": DumpNot, "networkOffering.rendered": DumpNot,
	"user.apiKey": dumpSecret, "user.secretKey": dumpSecret, "user.password": dumpNever,
	"kubernetesCluster.kubeconfig": dumpSecret, "sslCert.pair": DumpNot,
}

// dumpName returns the name of a type or field in dumps, which starts with a lower-case letter: LBRules is lbRules.
func dumpName(name string) string {
	n := len(name) - len(strings.TrimLeftFunc(name, unicode.IsUpper))
	if rest := name[n:]; n > 1 && rest != "" && rest != "s" && unicode.IsLower(rune(rest[0])) {
		n-- // the last capital starts the next word
	}
	return strings.ToLower(name[:n]) + name[n:]
}

// DumpRule returns how a field of a type is dumped, or "" if it is plain.
func DumpRule(t reflect.Type, f *reflect.StructField) string {
	if f.Type.PkgPath() == "sync" || f.Type.Kind() == reflect.Func {
		return DumpNot
	}
	return dumpFields[dumpName(t.Name())+"."+dumpName(f.Name)]
}

// stateRow is the list with one row for the fields of the state that are not tables.
const stateRow = "state"

// nextField is the field of that row with the next internal id of each table.
const nextField = "next"

// StateTables returns the tables of a state by field name, and the names in order.
func StateTables(st *store.State) (map[string]store.RowTable, []string) {
	tables, names := map[string]store.RowTable{}, []string{}
	v := reflect.ValueOf(st).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if DumpRule(v.Type(), &f) == DumpNot {
			continue
		}
		if t, ok := open(v.Field(i)).Interface().(store.RowTable); ok {
			tables[dumpName(f.Name)] = t
			names = append(names, dumpName(f.Name))
		}
	}
	return tables, names
}
