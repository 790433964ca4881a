"""What runs inside the jail before the jailed command: standard library only, imported by nothing but itself.

The folder is mounted (or copied) into every jail as the package `trainsmith_enter`. It does not import
trainsmith.
"""
