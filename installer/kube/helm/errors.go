// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

// LoadError means that a chart was not found or cannot be used.
type LoadError struct {
	Ref string // without a password
	// Remote is true if the chart was requested from a server.
	Remote bool
	Err    error
}

func (e *LoadError) Error() string { return fmt.Sprintf("chart %s: %v", e.Ref, e.cause()) }

func (e *LoadError) Unwrap() error { return e.Err }

// cause removes the path, which the message already contains.
func (e *LoadError) cause() error {
	var p *os.PathError
	if errors.As(e.Err, &p) && p.Path == e.Ref {
		return p.Err
	}
	return e.Err
}

// Remedy returns how to name a chart.
func (e *LoadError) Remedy() string {
	const without = "; without --chart csccm uses its embedded chart"
	if e.Remote {
		return "correct --chart and --version, and check that this machine can reach the server" + without
	}
	return "name the chart's folder, its .tgz, an https:// or an oci:// reference with --chart" + without
}

// ExitCode returns the exit code of wrong usage for a path, because the command line is the only possible cause.
func (e *LoadError) ExitCode() int {
	if e.Remote {
		return report.ExitFailure
	}
	return report.ExitUsage
}

// OwnershipError means that an object of the chart already exists and does not belong to this release.
type OwnershipError struct {
	Kind, Name string
	// Namespace of the object; empty for cluster-scoped kinds.
	Namespace string
	// Release and ReleaseNamespace are those that Apply was called for.
	Release, ReleaseNamespace string
	// Owner is the release that owns the object, as namespace/name; empty if no release owns it.
	Owner string
	Err   error
}

func (e *OwnershipError) object() string {
	if e.Namespace == "" {
		return fmt.Sprintf("%s %s", e.Kind, e.Name)
	}
	return fmt.Sprintf("%s %s/%s", e.Kind, e.Namespace, e.Name)
}

func (e *OwnershipError) Error() string {
	if e.Owner != "" {
		return fmt.Sprintf("release %s: %s exists and belongs to release %s", e.Release, e.object(), e.Owner)
	}
	return fmt.Sprintf("release %s: %s exists and belongs to no Helm release", e.Release, e.object())
}

func (e *OwnershipError) Unwrap() error { return e.Err }

// Remedy returns the commands that resolve the conflict.
func (e *OwnershipError) Remedy() string {
	object := fmt.Sprintf("%s %s", strings.ToLower(e.Kind), e.Name)
	if e.Namespace != "" {
		object = fmt.Sprintf("-n %s %s", e.Namespace, object)
	}
	if e.Owner != "" {
		namespace, name, _ := strings.Cut(e.Owner, "/")
		return fmt.Sprintf("use that release's name and namespace, or remove it first: helm -n %s uninstall %s", namespace, name)
	}
	if e.Kind == "Deployment" {
		// The selector is immutable, so an adopted Deployment could not get the chart's selector.
		return fmt.Sprintf("remove it (kubectl delete %s); a Deployment cannot be adopted, its selector is fixed", object)
	}
	return fmt.Sprintf("remove it (kubectl delete %[1]s) or give it to the release: "+
		"kubectl label --overwrite %[1]s app.kubernetes.io/managed-by=Helm && "+
		"kubectl annotate --overwrite %[1]s meta.helm.sh/release-name=%[2]s meta.helm.sh/release-namespace=%[3]s",
		object, e.Release, e.ReleaseNamespace)
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

// KubeVersionError means that the chart does not support the cluster's Kubernetes version.
type KubeVersionError struct {
	Want, Have string
	Err        error
}

func (e *KubeVersionError) Error() string {
	return fmt.Sprintf("the chart needs Kubernetes %s, this is %s", e.Want, e.Have)
}

func (e *KubeVersionError) Unwrap() error { return e.Err }

// Remedy returns how to get a supported combination.
func (e *KubeVersionError) Remedy() string {
	return "upgrade the cluster, or install a release of csccm that supports its version"
}

func (c *Client) explain(name string, err error) error { return explain(name, c.namespace, err) }

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
	schemaLine  = regexp.MustCompile(`^- at '([^']*)': (.*)$`)
)

// explain converts Helm's errors that users can resolve to typed errors with a remedy.
func explain(name, namespace string, err error) error {
	text := err.Error()
	if m := ownershipText.FindStringSubmatch(text); m != nil {
		e := &OwnershipError{Kind: m[1], Name: m[2], Namespace: m[3], Release: name, ReleaseNamespace: namespace, Err: err}
		e.Owner = owner(m[4], name, namespace)
		return e
	}
	if strings.Contains(text, "values don't meet the specifications of the schema") {
		if problems := schemaProblems(text); len(problems) > 0 {
			return &ValuesError{Problems: problems, Err: err}
		}
	}
	if m := guardText.FindStringSubmatch(text); m != nil {
		return &ValuesError{Problems: []string{strings.TrimPrefix(strings.TrimSpace(m[1]), "value ")}, Err: err}
	}
	if m := kubeText.FindStringSubmatch(text); m != nil {
		return &KubeVersionError{Want: m[1], Have: m[2], Err: err}
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

// schemaProblems converts Helm's list to lines such as "replicaCount: got string, want integer".
func schemaProblems(text string) []string {
	var problems []string
	for line := range strings.Lines(text) {
		m := schemaLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || groupText.MatchString(m[2]) {
			continue
		}
		path := strings.ReplaceAll(strings.Trim(m[1], "/"), "/", ".")
		if unknown := unknownText.FindStringSubmatch(m[2]); unknown != nil {
			for _, key := range strings.Split(unknown[1], ", ") {
				name := strings.Trim(key, "'")
				if path != "" {
					name = path + "." + name
				}
				problems = append(problems, name+": there is no such value")
			}
			continue
		}
		problems = append(problems, strings.TrimPrefix(path+": "+m[2], ": "))
	}
	slices.Sort(problems) // the validator's order is random
	return problems
}
