// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// groups are the API groups that the chart uses, as in the names of their OpenAPI documents.
var groups = []string{
	"api__v1", "apis__apps__v1", "apis__policy__v1",
	"apis__rbac.authorization.k8s.io__v1", "apis__admissionregistration.k8s.io__v1",
}

// kinds are the kinds that the chart uses.
var kinds = map[string]bool{
	"v1 ConfigMap": true, "v1 Pod": true, "v1 Service": true, "v1 ServiceAccount": true,
	"apps/v1 DaemonSet": true, "apps/v1 Deployment": true, "policy/v1 PodDisruptionBudget": true,
	"rbac.authorization.k8s.io/v1 ClusterRole": true, "rbac.authorization.k8s.io/v1 ClusterRoleBinding": true,
	"rbac.authorization.k8s.io/v1 Role": true, "rbac.authorization.k8s.io/v1 RoleBinding": true,
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        true,
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": true,
}

const refPrefix = "#/components/schemas/"

// schemas holds the schemas of the OpenAPI documents by name.
type schemas map[string]map[string]any

// read reads the schemas of all groups.
func read(documents fs.FS) (schemas, error) {
	all := schemas{}
	for _, group := range groups {
		raw, err := fs.ReadFile(documents, group+"_openapi.json")
		if err != nil {
			return nil, err
		}

		var doc struct {
			Components struct{ Schemas schemas }
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			return nil, fmt.Errorf("%s: %w", group, err)
		}

		for name, schema := range doc.Components.Schemas {
			all[name] = schema
		}
	}

	return all, nil
}

// Reduced is the content of the file for one version of Kubernetes.
type Reduced struct {
	Version string `json:"version"`
	// Kinds maps a kind, for example "apps/v1 Deployment", to the name of its schema.
	Kinds map[string]string `json:"kinds"`
	Defs  map[string]any    `json:"$defs"`
}

// reduced returns the schemas of the kinds that the chart uses and of the types that they reference. The schemas forbid
// unknown fields, like strict field validation in the API server. They omit descriptions, and the status, which
// manifests do not set.
func (s schemas) reduced(version string) Reduced {
	out := Reduced{Version: version, Kinds: map[string]string{}, Defs: map[string]any{}}
	var todo []string
	for name, schema := range s {
		for _, kind := range gvks(schema) {
			if kinds[kind] {
				out.Kinds[kind] = name
				//nolint:forcetypeassert // a schema of another form has to stop the generator
				delete(schema["properties"].(map[string]any), "status")
				todo = append(todo, name)
			}
		}
	}

	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if _, done := out.Defs[name]; done {
			continue
		}

		schema, refs := reduce(s[name])
		out.Defs[name] = schema
		todo = append(todo, refs...)
	}

	return out
}

// gvks returns the kinds of a schema, such as "apps/v1 Deployment".
func gvks(schema map[string]any) (out []string) {
	list, _ := schema["x-kubernetes-group-version-kind"].([]any)
	for _, entry := range list {
		gvk, _ := entry.(map[string]any)
		group, _ := gvk["group"].(string)
		apiVersion := strings.TrimPrefix(fmt.Sprintf("%s/%v", group, gvk["version"]), "/")
		out = append(out, fmt.Sprintf("%s %v", apiVersion, gvk["kind"]))
	}
	return out
}

// reduce returns the part of a schema that validation needs, and the names of the schemas that it references.
func reduce(schema map[string]any) (out map[string]any, refs []string) {
	out = map[string]any{}
	below := func(value any) any {
		inner, ok := value.(map[string]any)
		if !ok {
			return value
		}

		reduced, more := reduce(inner)
		refs = append(refs, more...)
		return reduced
	}

	for key, value := range schema {
		switch key {
		case "type", "enum", "required":
			out[key] = value

		case "$ref":
			//nolint:forcetypeassert // a schema of another form has to stop the generator
			name := strings.TrimPrefix(value.(string), refPrefix)
			refs = append(refs, name)
			out[key] = "#/$defs/" + name

		case "items", "additionalProperties":
			out[key] = below(value)

		case "properties":
			properties := map[string]any{}
			//nolint:forcetypeassert // a schema of another form has to stop the generator
			for name, property := range value.(map[string]any) {
				properties[name] = below(property)
			}
			out[key] = properties
			if _, free := schema["additionalProperties"]; !free {
				out["additionalProperties"] = false
			}

		case "allOf", "oneOf", "anyOf":
			var list []any
			//nolint:forcetypeassert // a schema of another form has to stop the generator
			for _, entry := range value.([]any) {
				list = append(list, below(entry))
			}
			out[key] = list
		}
	}

	return out, refs
}
