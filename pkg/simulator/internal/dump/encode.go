// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Rows are the lists of a dump.
type Rows = map[string][]map[string]any

// open returns an unexported field of an addressable struct as a readable and settable value.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// encoder converts a state to rows.
type encoder struct {
	options Options
	out     Rows
	refs    map[any]string // references by pointer
}

// Encode returns the rows of a state.
func Encode(st *store.State, o Options) (Rows, error) {
	e := &encoder{options: o, out: Rows{}, refs: map[any]string{}}
	tables, names := StateTables(st)
	next := map[string]any{}
	for _, name := range names {
		tables[name].EachRow(func(row any, id int64) { e.refs[row] = fmt.Sprintf("%s/%d", name, id) })
		next[name] = tables[name].NextID()
	}
	for _, name := range names {
		var err error
		tables[name].EachRow(func(row any, _ int64) {
			obj, rowErr := e.object(reflect.ValueOf(row).Elem())
			if rowErr != nil && err == nil {
				err = fmt.Errorf("%s: %w", e.refs[row], rowErr)
			}
			e.out[name] = append(e.out[name], obj)
		})
		if err != nil {
			return nil, err
		}
	}
	rest, err := e.object(reflect.ValueOf(st).Elem())
	if err != nil {
		return nil, err
	}
	rest[nextField] = next
	e.out[stateRow] = []map[string]any{rest}
	return e.out, nil
}

// object encodes the fields of a struct; fields of embedded structs are included.
func (e *encoder) object(v reflect.Value) (map[string]any, error) {
	obj := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if rule := DumpRule(v.Type(), &f); rule == DumpNot || rule == dumpNever || rule == dumpSecret && !e.options.Secrets {
			continue
		}
		field := open(v.Field(i))
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			inner, err := e.object(field)
			if err != nil {
				return nil, err
			}
			for k, x := range inner {
				obj[k] = x
			}
			continue
		}
		if _, ok := field.Interface().(store.RowTable); ok || field.IsZero() {
			continue
		}
		x, err := e.value(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dumpName(f.Name), err)
		}
		obj[dumpName(f.Name)] = x
	}
	return obj, nil
}

// value encodes any value except a table.
func (e *encoder) value(v reflect.Value) (any, error) {
	switch x := v.Interface().(type) {
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano), nil
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		return string(text), err
	}
	switch v.Kind() { //nolint:exhaustive // other kinds return an error
	case reflect.Bool, reflect.String, reflect.Float64, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return v.Interface(), nil
	case reflect.Pointer:
		return e.pointer(v)
	case reflect.Struct:
		if !v.CanAddr() { // a map's value is not addressable
			c := reflect.New(v.Type()).Elem()
			c.Set(v)
			v = c
		}
		return e.object(v)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return string(v.Bytes()), nil
		}
		list := make([]any, 0, v.Len())
		for i := range v.Len() {
			x, err := e.value(v.Index(i))
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return list, nil
	case reflect.Map:
		obj := map[string]any{}
		if v.Type().Key().Kind() != reflect.String {
			break
		}
		for _, k := range v.MapKeys() {
			x, err := e.value(v.MapIndex(k))
			if err != nil {
				return nil, err
			}
			obj[k.String()] = x
		}
		return obj, nil
	}
	return nil, fmt.Errorf("a dump cannot hold a %s", v.Type())
}

// pointer encodes a pointer to a basic type as its value, and a pointer to an object as a reference.
func (e *encoder) pointer(v reflect.Value) (any, error) {
	switch {
	case v.IsNil():
		return nil, nil //nolint:nilnil // YAML's null
	case v.Type().Elem().Kind() != reflect.Struct:
		return e.value(v.Elem())
	}
	if ref, ok := e.refs[v.Interface()]; ok {
		return ref, nil
	}
	name := dumpName(v.Type().Elem().Name())
	e.out[name] = append(e.out[name], nil) // reserve the entry first, because objects may refer to each other in cycles
	n := len(e.out[name])
	ref := fmt.Sprintf("%s/%d", name, n)
	e.refs[v.Interface()] = ref
	obj, err := e.object(v.Elem())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.ToLower(name), err)
	}
	e.out[name][n-1] = obj
	return ref, nil
}
