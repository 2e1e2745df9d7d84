// Package controllers stands in for the package of this name, whose module the Go module proxy does not serve. Cilium's
// operator uses this one constant of it, for multi-cluster services, which the kind clusters do not have.
package controllers

// DerivedServiceAnnotation is the annotation of a ServiceImport that names its derived Service.
const DerivedServiceAnnotation = "multicluster.kubernetes.io/derived-service"
