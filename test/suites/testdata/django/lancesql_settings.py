"""Settings of Django's own tests: the server at LANCESQL_ADDR, and a line for each test in the file LANCESQL_OUTCOMES.

A line is the word of the outcome and the name of the test. A test has one line, also when several of its
sub-tests fail, and what fails in setUpClass is a line of the class.
"""

import os
import unittest

import pymysql
from django.test.runner import DiscoverRunner

# PyMySQL in the place of mysqlclient, whose version Django asks for.
pymysql.version_info = (2, 2, 4, "final", 0)
pymysql.install_as_MySQLdb()

host, port = os.environ["LANCESQL_ADDR"].rsplit(":", 1)


def database(name):
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": name,
        "USER": "root",
        "PASSWORD": "",
        "HOST": host,
        "PORT": port,
        "TEST": {"CHARSET": "utf8mb4", "NAME": "test_" + name},
    }


DATABASES = {"default": database("django"), "other": database("django_other")}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "lancesql_settings.Runner"


class Result(unittest.TextTestResult):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lines = open(os.environ["LANCESQL_OUTCOMES"], "w", buffering=1)
        self.word = "pass"

    def line(self, test, word):
        self.lines.write("%s\t%s\n" % (word, test.id()))

    def startTest(self, test):
        super().startTest(test)
        self.word = "pass"

    def stopTest(self, test):
        super().stopTest(test)
        self.line(test, self.word)

    def addError(self, test, err):
        super().addError(test, err)
        self.word = "fail"
        if not isinstance(test, unittest.TestCase):  # setUpClass and its like, which no startTest precedes
            self.line(test, "fail")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.word = "fail"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.word = "fail"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.word == "pass":
            self.word = "skip"

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.word = "expected"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.word = "fail"


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Result
