// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mask stands for a value that is not shown.
const mask = "***"

// maxValue bounds a shown value, in characters.
const maxValue = 120

// notOurs are fields that the API server keeps for itself, by path.
var notOurs = []string{
	"metadata.managedFields", "metadata.resourceVersion", "metadata.uid", "metadata.generation",
	"metadata.creationTimestamp", "metadata.selfLink", "status",
	"metadata.annotations[deployment.kubernetes.io/revision]",
	"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
}

// Lines are the differences between two states of an object, sorted by path.
// Values of Secrets, and of environment variables that are named like secrets,
// are masked.
func Lines(before, after *unstructured.Unstructured) []string {
	d := &differ{secret: after.GetKind() == "Secret"}
	d.compare("", before.Object, after.Object)
	slices.SortFunc(d.lines, func(a, b string) int { return strings.Compare(pathOf(a), pathOf(b)) })
	return d.lines
}

func pathOf(line string) string { return strings.TrimPrefix(strings.TrimPrefix(line, "+ "), "- ") }

type differ struct {
	secret bool
	lines  []string
}

func (d *differ) compare(path string, before, after any) {
	if slices.Contains(notOurs, path) || reflect.DeepEqual(before, after) {
		return
	}
	wasMap, isMap := asMap(before), asMap(after)
	if wasMap != nil && isMap != nil || before == nil && isMap != nil || after == nil && wasMap != nil {
		for _, key := range keys(wasMap, isMap) {
			d.compare(join(path, key), wasMap[key], isMap[key])
		}
		return
	}
	was, wasList := before.([]any)
	is, isList := after.([]any)
	if (wasList || before == nil) && (isList || after == nil) {
		d.list(path, was, is)
		return
	}
	switch {
	case before == nil:
		d.lines = append(d.lines, fmt.Sprintf("+ %s: %s", path, d.show(path, after)))
	case after == nil:
		d.lines = append(d.lines, fmt.Sprintf("- %s: %s", path, d.show(path, before)))
	default:
		d.lines = append(d.lines, fmt.Sprintf("%s: %s -> %s", path, d.show(path, before), d.show(path, after)))
	}
}

// list compares lists of named things by name, lists of words as sets, and others by position.
func (d *differ) list(path string, was, is []any) {
	if before, after := byName(was), byName(is); before != nil && after != nil {
		for _, name := range keys(before, after) {
			d.compare(path+"["+name+"]", before[name], after[name])
		}
		return
	}
	if words(was) && words(is) {
		d.only("- ", path, was, is)
		d.only("+ ", path, is, was)
		return
	}
	for i := range max(len(was), len(is)) {
		var b, a any
		if i < len(was) {
			b = was[i]
		}
		if i < len(is) {
			a = is[i]
		}
		d.compare(path+"["+strconv.Itoa(i)+"]", b, a)
	}
}

// only are the words of one list that are not in the other.
func (d *differ) only(sign, path string, list, other []any) {
	for _, v := range list {
		if !slices.Contains(other, v) {
			d.lines = append(d.lines, fmt.Sprintf("%s%s: %s", sign, path, d.show(path, v)))
		}
	}
}

var (
	secretName = regexp.MustCompile(`(?i)pass|secret|token|key|credential`)
	envValue   = regexp.MustCompile(`(?:^|\.)env\[([^\]]*)\]\.value$`)
)

// show is a value in one line.
func (d *differ) show(path string, v any) string {
	if d.secret && (strings.HasPrefix(path, "data.") || strings.HasPrefix(path, "data[") || strings.HasPrefix(path, "stringData")) {
		return mask
	}
	if m := envValue.FindStringSubmatch(path); m != nil && secretName.MatchString(m[1]) {
		return mask
	}
	var s string
	if text, ok := v.(string); ok {
		s = strconv.Quote(text)
	} else {
		s = fmt.Sprint(v)
	}
	if r := []rune(s); len(r) > maxValue {
		s = string(r[:maxValue]) + "..."
	}
	return s
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func keys(a, b map[string]any) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// byName returns a list's elements by name; nil if not all have one of their own.
func byName(list []any) map[string]any {
	out := map[string]any{}
	for _, v := range list {
		name, ok := asMap(v)["name"].(string)
		if !ok || out[name] != nil {
			return nil
		}
		out[name] = v
	}
	return out
}

func words(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool {
		_, ok := v.(string)
		return !ok
	})
}
