// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/typo"
)

// loadError returns the error for a chart that was not found or cannot be used. ref has no password.
func loadError(ref string, remote bool, err error) error {
	var p *os.PathError
	if errors.As(err, &p) && p.Path == ref {
		err = p.Err // the message already contains the path
	}
	const without = "; without --chart csccm uses its embedded chart"
	e := &report.Error{What: "chart " + ref, Err: err}
	if remote {
		e.Fix = "correct --chart and --version, and check that this machine can reach the server" + without
		return e
	}
	// A path that is wrong is wrong usage: the command line is the only possible cause.
	e.Fix, e.Code = "name the chart's folder, its .tgz, an https:// or an oci:// reference with --chart"+without, report.ExitUsage
	return e
}

// ownershipError returns the error for an object of the chart that already exists and does not belong to this release.
// objectNamespace is empty for cluster-scoped kinds. owner is the release that owns the object, as namespace/name; empty
// if no release owns it.
func ownershipError(kind, name, objectNamespace, release, namespace, owner string) error {
	object, kubectl := kind+" "+name, strings.ToLower(kind)+" "+name
	if objectNamespace != "" {
		object, kubectl = kind+" "+objectNamespace+"/"+name, "-n "+objectNamespace+" "+kubectl
	}
	e := &report.Error{What: fmt.Sprintf("release %s: %s exists and belongs to no Helm release", release, object)}
	switch {
	case owner != "":
		e.What = fmt.Sprintf("release %s: %s exists and belongs to release %s", release, object, owner)
		ownerNamespace, ownerName, _ := strings.Cut(owner, "/")
		e.Fix = fmt.Sprintf("use that release's name and namespace, or remove it first: helm -n %s uninstall %s", ownerNamespace, ownerName)
	case kind == "Deployment":
		// The selector is immutable, so an adopted Deployment could not get the chart's selector.
		e.Fix = fmt.Sprintf("remove it (kubectl delete %s); a Deployment cannot be adopted, its selector is fixed", kubectl)
	default:
		e.Fix = fmt.Sprintf("remove it (kubectl delete %[1]s) or give it to the release: "+
			"kubectl label --overwrite %[1]s app.kubernetes.io/managed-by=Helm && "+
			"kubectl annotate --overwrite %[1]s meta.helm.sh/release-name=%[2]s meta.helm.sh/release-namespace=%[3]s", kubectl, release, namespace)
	}
	return e
}

// ValuesError means that the values do not match the chart's schema, or that a template of the chart rejects them.
type ValuesError struct {
	// Problems has one line for each problem: the value and what is wrong with it.
	Problems []string
	Err      error
}

func (e *ValuesError) Error() string {
	return "chart values: " + strings.Join(e.Problems, "; ")
}

func (e *ValuesError) Unwrap() error { return e.Err }

// Remedy returns where the values are documented.
func (e *ValuesError) Remedy() string {
	return "correct the values; the chart's README.md and values.schema.json list them all"
}

// ExitCode returns the exit code of wrong input.
func (e *ValuesError) ExitCode() int { return report.ExitUsage }

var (
	// Helm has no types for these errors, only texts.
	ownershipText = regexp.MustCompile(`([A-Za-z]+) "([^"]+)" in namespace "([^"]*)" exists and cannot be imported into the current release: (.*)`)
	ownerName     = regexp.MustCompile(`key "meta\.helm\.sh/release-name" must equal "[^"]*": current value is "([^"]*)"`)
	ownerSpace    = regexp.MustCompile(`key "meta\.helm\.sh/release-namespace" must equal "[^"]*": current value is "([^"]*)"`)
	guardText     = regexp.MustCompile(`(?s)execution error at \([^)]*\): (.*)`)
	kubeText      = regexp.MustCompile(`chart requires kubeVersion: (.+) which is incompatible with Kubernetes (\S+)`)
	// groupText matches lines that only introduce more specific lines.
	groupText   = regexp.MustCompile(`^(validation failed|'[a-zA-Z]+' failed)$`)
	unknownText = regexp.MustCompile(`^additional properties (.+) not allowed$`)
	patternText = regexp.MustCompile(`^('.*') does not match pattern '.*'$`)
	schemaLine  = regexp.MustCompile(`^- at '([^']*)': (.*)$`)
)

// explain converts Helm's errors that users can resolve to errors with a remedy. schema is that of the chart's values.
func explain(name, namespace string, err error, schema []byte) error {
	text := err.Error()
	if m := ownershipText.FindStringSubmatch(text); m != nil {
		return ownershipError(m[1], m[2], m[3], name, namespace, owner(m[4], name, namespace))
	}
	if strings.Contains(text, "values don't meet the specifications of the schema") {
		if problems := schemaProblems(text, schema); len(problems) > 0 {
			return &ValuesError{Problems: problems, Err: err}
		}
	}
	if m := guardText.FindStringSubmatch(text); m != nil {
		return &ValuesError{Problems: []string{strings.TrimPrefix(strings.TrimSpace(m[1]), "value ")}, Err: err}
	}
	if m := kubeText.FindStringSubmatch(text); m != nil {
		return &report.Error{
			What: fmt.Sprintf("the chart needs Kubernetes %s, this is %s", m[1], m[2]),
			Fix:  "upgrade the cluster, or install a release of csccm that supports its version",
		}
	}
	return fmt.Errorf("release %s in namespace %s: %w", name, namespace, err)
}

// owner returns the release that owns the object, from Helm's list of labels and annotations that differ.
func owner(complaint, name, namespace string) string {
	ownerN, ownerNS := ownerName.FindStringSubmatch(complaint), ownerSpace.FindStringSubmatch(complaint)
	if ownerN == nil && ownerNS == nil {
		return ""
	}
	if ownerN != nil {
		name = ownerN[1]
	}
	if ownerNS != nil {
		namespace = ownerNS[1]
	}
	return namespace + "/" + name
}

// schemaProblems converts Helm's list to lines such as "replicaCount: got string, want integer". The schema says in words what a
// pattern matches, and which values there are.
func schemaProblems(text string, schema []byte) []string {
	var root valueSchema
	_ = json.Unmarshal(schema, &root) // it only adds words
	var problems []string
	for line := range strings.Lines(text) {
		m := schemaLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || groupText.MatchString(m[2]) {
			continue
		}
		path, problem := strings.ReplaceAll(strings.Trim(m[1], "/"), "/", "."), m[2]
		if unknown := unknownText.FindStringSubmatch(problem); unknown != nil {
			for _, key := range strings.Split(unknown[1], ", ") {
				problems = append(problems, root.at(path).unknown(path, strings.Trim(key, "'")))
			}
			continue
		}
		if value := patternText.FindStringSubmatch(problem); value != nil && root.at(path).Title != "" {
			problem = value[1] + " is not " + root.at(path).Title
		}
		problems = append(problems, strings.TrimPrefix(path+": "+problem, ": "))
	}
	slices.Sort(problems) // the validator's order is random
	return problems
}

// valueSchema is the part of a JSON schema that messages about a value use.
type valueSchema struct {
	Title      string                 `json:"title"` // says in words what the pattern matches
	Properties map[string]valueSchema `json:"properties"`
}

// at returns the schema of the value with the path, which is empty for an element of a list.
func (s valueSchema) at(path string) valueSchema {
	if path == "" {
		return s
	}
	for key := range strings.SplitSeq(path, ".") {
		s = s.Properties[key]
	}
	return s
}

// unknown is the problem of a value that the schema does not have, with what somebody may have meant.
func (s valueSchema) unknown(path, name string) string {
	whole := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	problem := whole(name) + ": there is no such value"
	if near := typo.Nearest(name, slices.Collect(maps.Keys(s.Properties)), 1+len(name)/4); len(near) > 0 {
		for i := range near {
			near[i] = whole(near[i])
		}
		problem += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return problem
}
