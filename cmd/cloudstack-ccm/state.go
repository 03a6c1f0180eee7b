// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/configz"

	"github.com/csccm/csccm/pkg/provider"
)

// state is what /configz serves: the State of the provider at the time of the request. configz accepts only API
// objects.
type state struct {
	metav1.TypeMeta

	provider *provider.Provider
}

func (s *state) DeepCopyObject() runtime.Object { return s }

// MarshalJSON implements json.Marshaler.
func (s *state) MarshalJSON() ([]byte, error) { return json.Marshal(s.provider.State()) }

// publish serves the provider's State at /configz.
func publish(p *provider.Provider) error {
	c, err := configz.New("cloudstack")
	if err != nil {
		return err
	}
	return c.Set(&state{metav1.TypeMeta{Kind: "State", APIVersion: "csccm.io/v1"}, p})
}
