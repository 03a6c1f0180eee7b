// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// decoder converts the rows of a dump to a state.
type decoder struct {
	in      Rows
	objects map[string]reflect.Value // pointers by reference
	types   map[string]reflect.Type  // types of objects that are in no table, by name
}

// Load builds the state that a dump describes.
func Load(in Rows) (*store.State, error) {
	d := &decoder{in: in, objects: map[string]reflect.Value{}, types: map[string]reflect.Type{}}
	st := store.NewState()
	tables, names := StateTables(st)
	d.collectTypes(reflect.TypeFor[store.State](), map[reflect.Type]bool{})
	for _, list := range slices.Sorted(maps.Keys(in)) {
		if list == stateRow {
			continue
		}
		if err := d.create(list, tables[list]); err != nil {
			return nil, err
		}
	}
	for _, list := range slices.Sorted(maps.Keys(in)) {
		if list == stateRow {
			continue
		}
		for i, obj := range in[list] {
			if err := d.fill(d.objects[d.ref(list, i, tables[list] != nil)].Elem(), obj); err != nil {
				return nil, fmt.Errorf("rows: %s, entry %d: %w", list, i+1, err)
			}
		}
	}
	for _, name := range names {
		for i := range in[name] {
			tables[name].PutRow(d.objects[d.ref(name, i, true)].Interface())
		}
	}
	if err := d.fillState(st, tables); err != nil {
		return nil, fmt.Errorf("rows: %s: %w", stateRow, err)
	}
	for _, u := range st.Users.Rows {
		if u.APIKey != "" && !u.Removed {
			st.APIKeys[u.APIKey] = u
		}
	}
	return st, nil
}

// fillState sets the fields of the state that are not tables, and the next ids of the tables.
func (d *decoder) fillState(st *store.State, tables map[string]store.RowTable) error {
	if len(d.in[stateRow]) != 1 {
		return fmt.Errorf("there must be one entry")
	}
	members := maps.Clone(d.in[stateRow][0])
	next, _ := members[nextField].(map[string]any)
	delete(members, nextField)
	for name, t := range tables {
		n, ok := next[name].(float64)
		switch {
		case ok:
			t.SetNextID(int64(n))
		case len(d.in[name]) > 0:
			return fmt.Errorf("%s: the next id of %s is missing", nextField, name)
		}
	}
	return d.fill(reflect.ValueOf(st).Elem(), members)
}

// ref returns the reference of an entry of a list.
func (d *decoder) ref(list string, i int, inTable bool) string {
	if inTable {
		id, _ := d.in[list][i]["id"].(float64)
		return list + "/" + strconv.FormatInt(int64(id), 10)
	}
	return list + "/" + strconv.Itoa(i+1)
}

// create creates the empty objects of a list, so that references to them can be resolved.
func (d *decoder) create(list string, t store.RowTable) error {
	typ := d.types[list]
	if t == nil && typ == nil {
		return fmt.Errorf("rows: there is no list %q in this version of the simulator", list)
	}
	last := int64(0)
	for i := range d.in[list] {
		ref := d.ref(list, i, t != nil)
		if t == nil {
			d.objects[ref] = reflect.New(typ)
			continue
		}
		id, _ := d.in[list][i]["id"].(float64)
		if int64(id) <= last {
			return fmt.Errorf("rows: %s, entry %d: ids must be numbers from 1 that rise", list, i+1)
		}
		last = int64(id)
		d.objects[ref] = reflect.ValueOf(t.NewRow())
	}
	return nil
}

// collectTypes finds the struct types to which the state has pointers.
func (d *decoder) collectTypes(t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() { //nolint:exhaustive // other kinds have no element type
	case reflect.Pointer:
		if e := t.Elem(); e.Kind() == reflect.Struct && e.PkgPath() == reflect.TypeFor[store.State]().PkgPath() {
			d.types[dumpName(e.Name())] = e
		}
		d.collectTypes(t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Map:
		d.collectTypes(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			d.collectTypes(t.Field(i).Type, seen)
		}
	}
}

// fill sets the fields of a struct. It refuses fields that the struct does not have.
func (d *decoder) fill(v reflect.Value, obj map[string]any) error {
	left := maps.Clone(obj)
	if err := d.fillFrom(v, left); err != nil {
		return err
	}
	for k := range left {
		return fmt.Errorf("there is no member %q in this version of the simulator", k)
	}
	return nil
}

// fillFrom sets the fields that are in obj and removes them from obj.
func (d *decoder) fillFrom(v reflect.Value, obj map[string]any) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		field := open(v.Field(i))
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if err := d.fillFrom(field, obj); err != nil {
				return err
			}
			continue
		}
		name := dumpName(f.Name)
		x, ok := obj[name]
		if !ok || DumpRule(v.Type(), &f) == DumpNot {
			continue
		}
		delete(obj, name)
		if err := d.set(field, x); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// set decodes a value.
func (d *decoder) set(v reflect.Value, x any) error {
	wrong := fmt.Errorf("%v is no %s", x, v.Type())
	if x == nil {
		return nil
	}
	text, isText := x.(string)
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		*t = parsed
		return err
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	number, isNumber := x.(float64)
	switch v.Kind() {
	case reflect.Bool:
		b, ok := x.(bool)
		if !ok {
			return wrong
		}
		v.SetBool(b)
	case reflect.String:
		if !isText {
			return wrong
		}
		v.SetString(text)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if !isNumber {
			return wrong
		}
		v.SetInt(int64(number))
	case reflect.Uint64:
		if !isNumber {
			return wrong
		}
		v.SetUint(uint64(number))
	case reflect.Float64:
		if !isNumber {
			return wrong
		}
		v.SetFloat(number)
	case reflect.Pointer:
		return d.setPointer(v, x)
	case reflect.Struct:
		obj, ok := x.(map[string]any)
		if !ok {
			return wrong
		}
		return d.fill(v, obj)
	case reflect.Slice:
		return d.setSlice(v, x)
	case reflect.Map:
		return d.setMap(v, x)
	default:
		return wrong
	}
	return nil
}

func (d *decoder) setPointer(v reflect.Value, x any) error {
	if v.Type().Elem().Kind() != reflect.Struct {
		p := reflect.New(v.Type().Elem())
		v.Set(p)
		return d.set(p.Elem(), x)
	}
	ref, _ := x.(string)
	o, ok := d.objects[ref]
	if !ok || o.Type() != v.Type() {
		return fmt.Errorf("%v refers to no %s of the dump", x, dumpName(v.Type().Elem().Name()))
	}
	v.Set(o)
	return nil
}

func (d *decoder) setSlice(v reflect.Value, x any) error {
	if text, ok := x.(string); ok && v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(text))
		return nil
	}
	list, ok := x.([]any)
	if !ok {
		return fmt.Errorf("%v is no list", x)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i := range list {
		if err := d.set(v.Index(i), list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) setMap(v reflect.Value, x any) error {
	obj, ok := x.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", x)
	}
	v.Set(reflect.MakeMap(v.Type()))
	for k, item := range obj {
		p := reflect.New(v.Type().Elem()).Elem()
		if err := d.set(p, item); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(k).Convert(v.Type().Key()), p)
	}
	return nil
}
