package engine

type intent struct{}
